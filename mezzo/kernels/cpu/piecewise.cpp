#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "mezzo/kernels/cpu/piecewise.cpp"
#include <hwy/foreach_target.h>

#include "mezzo/kernels/cpu/loops/pointwise-inl.h"
#include "mezzo/kernels/cpu/simd/math-inl.h"
#include "mezzo/ops/piecewise_attrs.h"

HWY_BEFORE_NAMESPACE();
namespace mezzo::HWY_NAMESPACE {

void leaky_relu(const KernelArgs& args) {
  const auto slope = static_cast<float>(args.attrs<LeakyReluAttrs>().negative_slope);
  map_unary(args, [slope](F32Vec x) HWY_ATTR {
    return hn::IfThenElse(hn::Gt(x, hn::Zero(F32())), x, hn::Mul(x, number(slope)));
  });
}

void leaky_relu_grad(const KernelArgs& args) {
  const auto slope = static_cast<float>(args.attrs<LeakyReluAttrs>().negative_slope);
  map_binary(args, [slope](F32Vec g, F32Vec x) HWY_ATTR {
    return hn::IfThenElse(hn::Gt(x, hn::Zero(F32())), g, hn::Mul(g, number(slope)));
  });
}

void clamp_kernel(const KernelArgs& args) {
  const ClampAttrs bounds = bounds_in(args.input(0).dtype(), args.attrs<ClampAttrs>());
  const auto min = static_cast<float>(bounds.min);
  const auto max = static_cast<float>(bounds.max);
  map_unary(args, [min, max](F32Vec x) HWY_ATTR { return clamp(x, min, max); });
}

void clamp_grad(const KernelArgs& args) {
  const auto inside = inside_of(bounds_in(args.input(1).dtype(), args.attrs<ClampAttrs>()));
  map_binary(args, [inside](F32Vec g, F32Vec x) HWY_ATTR {
    const auto is_within = hn::And(hn::Ge(x, number(inside.first)), hn::Le(x, number(inside.last)));
    return hn::IfThenElseZero(is_within, g);
  });
}

void absolute(const KernelArgs& args) {
  map_unary(args, [](F32Vec x) HWY_ATTR { return hn::Abs(x); });
}

void absolute_grad(const KernelArgs& args) {
  map_binary(args, [](F32Vec g, F32Vec x) HWY_ATTR {
    const auto zero = hn::Zero(F32());
    const auto below = hn::IfThenElseZero(hn::Lt(x, zero), hn::Neg(g));
    return hn::IfThenElse(hn::Gt(x, zero), g, below);
  });
}

}  // namespace mezzo::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace mezzo::kernels::cpu {
namespace {

HWY_EXPORT(leaky_relu);
HWY_EXPORT(leaky_relu_grad);
HWY_EXPORT(clamp_kernel);
HWY_EXPORT(clamp_grad);
HWY_EXPORT(absolute);
HWY_EXPORT(absolute_grad);

}  // namespace

extern const KernelList leaky_relu = simd_kernel([](const KernelArgs& args) {
  HWY_DYNAMIC_DISPATCH(leaky_relu)
  (args);
});
extern const KernelList leaky_relu_grad = simd_kernel([](const KernelArgs& args) {
  HWY_DYNAMIC_DISPATCH(leaky_relu_grad)
  (args);
});
extern const KernelList clamp = simd_kernel([](const KernelArgs& args) {
  HWY_DYNAMIC_DISPATCH(clamp_kernel)
  (args);
});
extern const KernelList clamp_grad = simd_kernel([](const KernelArgs& args) {
  HWY_DYNAMIC_DISPATCH(clamp_grad)
  (args);
});
extern const KernelList abs = simd_kernel([](const KernelArgs& args) {
  HWY_DYNAMIC_DISPATCH(absolute)
  (args);
});
extern const KernelList abs_grad = simd_kernel([](const KernelArgs& args) {
  HWY_DYNAMIC_DISPATCH(absolute_grad)
  (args);
});

}  // namespace mezzo::kernels::cpu
#endif
