#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "mezzo/kernels/cpu/relu.cpp"
#include <hwy/foreach_target.h>

#include "mezzo/kernels/cpu/layout.h"
#include "mezzo/kernels/cpu/simd-inl.h"
#include "mezzo/kernels/kernel.h"

HWY_BEFORE_NAMESPACE();
namespace mezzo::HWY_NAMESPACE {

void relu(const KernelArgs& args) {
  const Tensor& out = args.output();
  const Tensor x = kernels::dense(args.input(0), out.format());
  kernels::visit_vector_dtype(x.dtype(), [&]<class T>() {
    map(x.data<T>(), out.mutable_data<T>(), x.numel(), [](F32Vec v) HWY_ATTR {
      const auto zero = hn::Zero(F32());
      return hn::IfThenElse(hn::Le(v, zero), zero, v);  // a NaN is not <= 0 and stays
    });
  });
}

void relu_grad(const KernelArgs& args) {
  const Tensor& out = args.output();
  const Tensor grad = kernels::dense(args.input(0), out.format());
  const Tensor y = kernels::dense(args.input(1), out.format());
  kernels::visit_vector_dtype(y.dtype(), [&]<class T>() {
    map(grad.data<T>(), y.data<T>(), out.mutable_data<T>(), y.numel(),
        [](F32Vec g, F32Vec v)
            HWY_ATTR { return hn::IfThenElseZero(hn::Gt(v, hn::Zero(F32())), g); });
  });
}

}  // namespace mezzo::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace mezzo::kernels::cpu {
namespace {

HWY_EXPORT(relu);
HWY_EXPORT(relu_grad);

}  // namespace

extern const KernelList relu{{{{"cpu_simd", vector_dtypes_only, [](const KernelArgs& args) {
                                  HWY_DYNAMIC_DISPATCH(relu)(args);
                                }}}}};
extern const KernelList relu_grad{{{{"cpu_simd", vector_dtypes_only, [](const KernelArgs& args) {
                                       HWY_DYNAMIC_DISPATCH(relu_grad)(args);
                                     }}}}};

}  // namespace mezzo::kernels::cpu
#endif
