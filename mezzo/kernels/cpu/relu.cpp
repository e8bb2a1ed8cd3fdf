#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "mezzo/kernels/cpu/relu.cpp"
#include <hwy/foreach_target.h>

#include "mezzo/kernels/cpu/loops/pointwise-inl.h"

HWY_BEFORE_NAMESPACE();
namespace mezzo::HWY_NAMESPACE {

void relu(const KernelArgs& args) {
  map_unary(args, [](F32Vec v) HWY_ATTR {
    const auto zero = hn::Zero(F32());
    return hn::IfThenElse(hn::Le(v, zero), zero, v);  // a NaN is not <= 0 and stays
  });
}

void relu_grad(const KernelArgs& args) {
  map_binary(args, [](F32Vec g, F32Vec v)
                       HWY_ATTR { return hn::IfThenZeroElse(hn::Le(v, hn::Zero(F32())), g); });
}

}  // namespace mezzo::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace mezzo::kernels::cpu {
namespace {

HWY_EXPORT(relu);
HWY_EXPORT(relu_grad);

}  // namespace

extern const KernelList relu = simd_kernel([](const KernelArgs& args) {
  HWY_DYNAMIC_DISPATCH(relu)
  (args);
});
extern const KernelList relu_grad = simd_kernel([](const KernelArgs& args) {
  HWY_DYNAMIC_DISPATCH(relu_grad)
  (args);
});

}  // namespace mezzo::kernels::cpu
#endif
