// More unary pointwise functions, beside those of pointwise.cpp.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "mezzo/kernels/cpu/elementary.cpp"
#include <hwy/foreach_target.h>

#include "mezzo/kernels/cpu/loops/pointwise-inl.h"
#include "mezzo/kernels/cpu/simd/functions-inl.h"
#include "mezzo/ops/elementary_attrs.h"

HWY_BEFORE_NAMESPACE();
namespace mezzo::HWY_NAMESPACE {

void log1p_kernel(const KernelArgs& args) {
  map_unary(args, [](F32Vec x) HWY_ATTR { return log_of_one_plus(x); });
}
void rsqrt_kernel(const KernelArgs& args) {
  map_unary(args, [](F32Vec x) HWY_ATTR { return hn::Div(number(1.0F), hn::Sqrt(x)); });
}
void erf_kernel(const KernelArgs& args) {
  map_unary(args, [](F32Vec x) HWY_ATTR { return erf(x); });
}
void sin_kernel(const KernelArgs& args) {
  map_unary(args, [](F32Vec x) HWY_ATTR { return sine_of(x, 0); });
}
void cos_kernel(const KernelArgs& args) {
  map_unary(args, [](F32Vec x) HWY_ATTR { return sine_of(x, 1); });
}
void softplus_kernel(const KernelArgs& args) {
  const auto beta = static_cast<float>(args.attrs<SoftplusAttrs>().beta);
  map_unary(args, [beta](F32Vec x) HWY_ATTR {
    const auto t = hn::Mul(x, number(beta));
    const auto linear = hn::Max(t, number(0.0F));
    const auto rest = log_of_one_plus(exp(hn::Neg(hn::Abs(t))));
    return hn::Div(hn::Add(linear, rest), number(beta));
  });
}

}  // namespace mezzo::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace mezzo::kernels::cpu {
namespace {

HWY_EXPORT(log1p_kernel);
HWY_EXPORT(rsqrt_kernel);
HWY_EXPORT(erf_kernel);
HWY_EXPORT(sin_kernel);
HWY_EXPORT(cos_kernel);
HWY_EXPORT(softplus_kernel);

}  // namespace

extern const KernelList log1p = simd_kernel([](const KernelArgs& args) {
  HWY_DYNAMIC_DISPATCH(log1p_kernel)
  (args);
});
extern const KernelList rsqrt = simd_kernel([](const KernelArgs& args) {
  HWY_DYNAMIC_DISPATCH(rsqrt_kernel)
  (args);
});
extern const KernelList erf = simd_kernel([](const KernelArgs& args) {
  HWY_DYNAMIC_DISPATCH(erf_kernel)
  (args);
});
extern const KernelList sin = simd_kernel([](const KernelArgs& args) {
  HWY_DYNAMIC_DISPATCH(sin_kernel)
  (args);
});
extern const KernelList cos = simd_kernel([](const KernelArgs& args) {
  HWY_DYNAMIC_DISPATCH(cos_kernel)
  (args);
});
extern const KernelList softplus = simd_kernel([](const KernelArgs& args) {
  HWY_DYNAMIC_DISPATCH(softplus_kernel)
  (args);
});

}  // namespace mezzo::kernels::cpu
#endif
