// Unary pointwise functions and their gradients.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "mezzo/kernels/cpu/pointwise.cpp"
#include <cmath>

#include <hwy/foreach_target.h>

#include "mezzo/kernels/cpu/loops/pointwise-inl.h"
#include "mezzo/kernels/cpu/simd/math-inl.h"
#include "mezzo/ops/pointwise_attrs.h"

HWY_BEFORE_NAMESPACE();
namespace mezzo::HWY_NAMESPACE {
namespace {

// Element by element, by the C library: an f32 logarithm times an exponent would be off by 100
// units in the last place. Exponents that f32 does not hold exactly need pow in f64.
template <class Exponent>
HWY_INLINE F32Vec pow_general(F32Vec x, Exponent exponent) {
  alignas(64) float values[kMaxLanes];
  hn::Store(x, F32(), values);
  for (std::int64_t i = 0; i < lanes(); ++i) {
    values[i] = static_cast<float>(std::pow(static_cast<Exponent>(values[i]), exponent));
  }
  return hn::Load(F32(), values);
}

// pow(x, 1/2) by the rules of C: unlike sqrt(x), never -0, and inf at -inf.
HWY_INLINE F32Vec square_root(F32Vec x) {
  const auto infinity = number(std::numeric_limits<float>::infinity());
  const auto root = hn::Sqrt(hn::Add(x, hn::Zero(F32())));
  return hn::IfThenElse(hn::Eq(x, hn::Neg(infinity)), infinity, root);
}

// The gate s(v) of the tanh form x * s(v), with the logistic function s, at x and at -x.
HWY_INLINE SigmoidPair gelu_tanh_gate(F32Vec x) {
  const auto slope = static_cast<float>(2 * kGeluScale);
  const auto cubic = static_cast<float>(2 * kGeluScale * kGeluCubic);
  return sigmoid_pair(hn::Mul(x, hn::MulAdd(hn::Mul(x, x), number(cubic), number(slope))));
}

// Avoids 0 * inf: gelu, silu and their gradients have limits at both ends.
HWY_INLINE F32Vec finite(F32Vec x) {
  return clamp(x, -std::numeric_limits<float>::max(), std::numeric_limits<float>::infinity());
}

}  // namespace

void exp_kernel(const KernelArgs& args) {
  map_unary(args, [](F32Vec x) HWY_ATTR { return exp(x); });
}
void log_kernel(const KernelArgs& args) {
  map_unary(args, [](F32Vec x) HWY_ATTR { return log(x); });
}
void sqrt_kernel(const KernelArgs& args) {
  map_unary(args, [](F32Vec x) HWY_ATTR { return hn::Sqrt(x); });
}
void sigmoid_kernel(const KernelArgs& args) {
  map_unary(args, [](F32Vec x) HWY_ATTR { return sigmoid(x); });
}
void tanh_kernel(const KernelArgs& args) {
  map_unary(args, [](F32Vec x) HWY_ATTR { return tanh(x); });
}

void pow_kernel(const KernelArgs& args) {
  const double exponent = args.attrs<PowAttrs>().exponent;
  if (exponent == 0) {
    map_unary(args, [](F32Vec) HWY_ATTR { return number(1.0F); });
  } else if (exponent == 1) {
    map_unary(args, [](F32Vec x) HWY_ATTR { return x; });
  } else if (exponent == 2) {
    map_unary(args, [](F32Vec x) HWY_ATTR { return hn::Mul(x, x); });
  } else if (exponent == 3) {
    map_unary(args, [](F32Vec x) HWY_ATTR { return hn::Mul(hn::Mul(x, x), x); });
  } else if (exponent == -1) {
    map_unary(args, [](F32Vec x) HWY_ATTR { return hn::Div(number(1.0F), x); });
  } else if (exponent == 0.5) {
    map_unary(args, [](F32Vec x) HWY_ATTR { return square_root(x); });
  } else if (exponent == -0.5) {
    map_unary(args, [](F32Vec x) HWY_ATTR { return hn::Div(number(1.0F), square_root(x)); });
  } else if (const auto power = static_cast<float>(exponent); power == exponent) {
    map_unary(args, [power](F32Vec x) HWY_ATTR { return pow_general(x, power); });
  } else {
    map_unary(args, [exponent](F32Vec x) HWY_ATTR { return pow_general(x, exponent); });
  }
}

void sigmoid_grad_kernel(const KernelArgs& args) {
  map_binary(args, [](F32Vec g, F32Vec y)
                       HWY_ATTR { return hn::Mul(g, hn::Mul(y, hn::Sub(number(1.0F), y))); });
}

void tanh_grad_kernel(const KernelArgs& args) {
  map_binary(args, [](F32Vec g, F32Vec y) HWY_ATTR {
    const auto one = number(1.0F);
    return hn::Mul(g, hn::Mul(hn::Sub(one, y), hn::Add(one, y)));
  });
}

void gelu_kernel(const KernelArgs& args) {
  if (args.attrs<GeluAttrs>().form == GeluForm::kExact) {
    map_unary(args, [](F32Vec x) HWY_ATTR { return gelu(x); });
  } else {
    map_unary(args, [](F32Vec x) HWY_ATTR {
      const auto v = finite(x);
      return hn::Mul(v, gelu_tanh_gate(v).of_x);
    });
  }
}

void gelu_grad_kernel(const KernelArgs& args) {
  if (args.attrs<GeluAttrs>().form == GeluForm::kExact) {
    map_binary(args, [](F32Vec g, F32Vec x) HWY_ATTR { return hn::Mul(g, gelu_derivative(x)); });
  } else {
    map_binary(args, [](F32Vec g, F32Vec x) HWY_ATTR {
      const auto v = clamp(x, -100.0F, 100.0F);  // all results are 0 or 1 beyond
      const auto [s, rest] = gelu_tanh_gate(v);
      const auto slope =
          hn::MulAdd(hn::Mul(v, v), number(6 * kGeluScale * kGeluCubic), number(2 * kGeluScale));
      const auto bend = hn::Mul(hn::Mul(v, s), rest);
      return hn::Mul(g, hn::MulAdd(bend, slope, s));
    });
  }
}

void silu_kernel(const KernelArgs& args) {
  map_unary(args, [](F32Vec x) HWY_ATTR {
    const auto v = finite(x);
    return hn::Mul(v, sigmoid(v));
  });
}

void silu_grad_kernel(const KernelArgs& args) {
  map_binary(args, [](F32Vec g, F32Vec x) HWY_ATTR {
    const auto v = clamp(x, -200.0F, 200.0F);  // all results are 0 or 1 beyond
    const auto [s, rest] = sigmoid_pair(v);
    return hn::Mul(g, hn::MulAdd(hn::Mul(v, s), rest, s));
  });
}

}  // namespace mezzo::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace mezzo::kernels::cpu {
namespace {

HWY_EXPORT(exp_kernel);
HWY_EXPORT(log_kernel);
HWY_EXPORT(sqrt_kernel);
HWY_EXPORT(pow_kernel);
HWY_EXPORT(sigmoid_kernel);
HWY_EXPORT(sigmoid_grad_kernel);
HWY_EXPORT(tanh_kernel);
HWY_EXPORT(tanh_grad_kernel);
HWY_EXPORT(gelu_kernel);
HWY_EXPORT(gelu_grad_kernel);
HWY_EXPORT(silu_kernel);
HWY_EXPORT(silu_grad_kernel);

}  // namespace

extern const KernelList exp = simd_kernel([](const KernelArgs& args) {
  HWY_DYNAMIC_DISPATCH(exp_kernel)
  (args);
});
extern const KernelList log = simd_kernel([](const KernelArgs& args) {
  HWY_DYNAMIC_DISPATCH(log_kernel)
  (args);
});
extern const KernelList sqrt = simd_kernel([](const KernelArgs& args) {
  HWY_DYNAMIC_DISPATCH(sqrt_kernel)
  (args);
});
extern const KernelList pow = simd_kernel([](const KernelArgs& args) {
  HWY_DYNAMIC_DISPATCH(pow_kernel)
  (args);
});
extern const KernelList sigmoid = simd_kernel([](const KernelArgs& args) {
  HWY_DYNAMIC_DISPATCH(sigmoid_kernel)
  (args);
});
extern const KernelList sigmoid_grad = simd_kernel([](const KernelArgs& args) {
  HWY_DYNAMIC_DISPATCH(sigmoid_grad_kernel)
  (args);
});
extern const KernelList tanh = simd_kernel([](const KernelArgs& args) {
  HWY_DYNAMIC_DISPATCH(tanh_kernel)
  (args);
});
extern const KernelList tanh_grad = simd_kernel([](const KernelArgs& args) {
  HWY_DYNAMIC_DISPATCH(tanh_grad_kernel)
  (args);
});
extern const KernelList gelu = simd_kernel([](const KernelArgs& args) {
  HWY_DYNAMIC_DISPATCH(gelu_kernel)
  (args);
});
extern const KernelList gelu_grad = simd_kernel([](const KernelArgs& args) {
  HWY_DYNAMIC_DISPATCH(gelu_grad_kernel)
  (args);
});
extern const KernelList silu = simd_kernel([](const KernelArgs& args) {
  HWY_DYNAMIC_DISPATCH(silu_kernel)
  (args);
});
extern const KernelList silu_grad = simd_kernel([](const KernelArgs& args) {
  HWY_DYNAMIC_DISPATCH(silu_grad_kernel)
  (args);
});

}  // namespace mezzo::kernels::cpu
#endif
