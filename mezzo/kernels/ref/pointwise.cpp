#include <algorithm>
#include <cmath>
#include <numbers>

#include "mezzo/kernels/kernel.h"
#include "mezzo/ops/pointwise_attrs.h"

namespace mezzo::kernels::ref {
namespace {

template <class Function>
void unary(const RefArgs& args, Function f) {
  for (std::int64_t i = 0; i < args.outputs[0].numel(); ++i) {
    args.outputs[0][i] = f(args.inputs[0][i]);
  }
}

template <class Function>
void scaled(const RefArgs& args, Function derivative) {
  for (std::int64_t i = 0; i < args.outputs[0].numel(); ++i) {
    args.outputs[0][i] = args.inputs[0][i] * derivative(args.inputs[1][i]);
  }
}

// erfc keeps small values for negative x accurate, where 1 + erf cancels.
double normal_integral(double x) { return 0.5 * std::erfc(-x / std::numbers::sqrt2); }
double normal_density(double x) {
  return std::exp(-0.5 * x * x) * std::numbers::inv_sqrtpi / std::numbers::sqrt2;
}
double logistic(double x) { return 1 / (1 + std::exp(-x)); }

}  // namespace

extern const RefKernel exp = [](const RefArgs& args) {
  unary(args, [](double x) { return std::exp(x); });
};
extern const RefKernel log = [](const RefArgs& args) {
  unary(args, [](double x) { return std::log(x); });
};
extern const RefKernel sqrt = [](const RefArgs& args) {
  unary(args, [](double x) { return std::sqrt(x); });
};
extern const RefKernel pow = [](const RefArgs& args) {
  unary(args, [p = args.attrs<PowAttrs>().exponent](double x) { return std::pow(x, p); });
};
extern const RefKernel sigmoid = [](const RefArgs& args) { unary(args, logistic); };
extern const RefKernel tanh = [](const RefArgs& args) {
  unary(args, [](double x) { return std::tanh(x); });
};
extern const RefKernel gelu = [](const RefArgs& args) {
  const bool exact = args.attrs<GeluAttrs>().form == GeluForm::kExact;
  unary(args, [exact](double x) {
    if (std::isinf(x)) return x > 0 ? x : 0.0;
    if (exact) return x * normal_integral(x);
    return x * logistic(2 * kGeluScale * (x + kGeluCubic * x * x * x));
  });
};
extern const RefKernel silu = [](const RefArgs& args) {
  unary(args, [](double x) { return std::isinf(x) ? std::max(x, 0.0) : x * logistic(x); });
};
extern const RefKernel sigmoid_grad = [](const RefArgs& args) {
  scaled(args, [](double y) { return y * (1 - y); });
};
extern const RefKernel tanh_grad = [](const RefArgs& args) {
  scaled(args, [](double y) { return 1 - y * y; });
};
extern const RefKernel gelu_grad = [](const RefArgs& args) {
  const bool exact = args.attrs<GeluAttrs>().form == GeluForm::kExact;
  scaled(args, [exact](double x) {
    if (std::isinf(x)) return x > 0 ? 1.0 : 0.0;
    if (exact) return normal_integral(x) + x * normal_density(x);
    const double s = logistic(2 * kGeluScale * (x + kGeluCubic * x * x * x));
    return s + x * s * (1 - s) * 2 * kGeluScale * (1 + 3 * kGeluCubic * x * x);
  });
};

extern const RefKernel silu_grad = [](const RefArgs& args) {
  scaled(args, [](double x) {
    if (std::isinf(x)) return x > 0 ? 1.0 : 0.0;
    const double s = logistic(x);
    return s + x * s * (1 - s);
  });
};

}  // namespace mezzo::kernels::ref
