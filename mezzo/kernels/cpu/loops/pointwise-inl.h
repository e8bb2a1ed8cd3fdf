// Loops for operations that compute each result from the inputs' elements at the same position.
#if defined(MEZZO_KERNELS_CPU_POINTWISE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MEZZO_KERNELS_CPU_POINTWISE_INL_H_
#undef MEZZO_KERNELS_CPU_POINTWISE_INL_H_
#else
#define MEZZO_KERNELS_CPU_POINTWISE_INL_H_
#endif

#include "mezzo/kernels/cpu/loops/layout.h"
#include "mezzo/kernels/cpu/simd/simd-inl.h"
#include "mezzo/kernels/kernel.h"

HWY_BEFORE_NAMESPACE();
namespace mezzo::HWY_NAMESPACE {

// Computes the output from the only input by a function of f32 vectors.
template <class Function>
void map_unary(const KernelArgs& args, const Function& f) {
  const Tensor& out = args.output();
  const Tensor x = kernels::dense(args.input(0), out.format());
  kernels::visit_vector_dtype(
      x.dtype(), [&]<class T>() { map(x.data<T>(), out.mutable_data<T>(), x.numel(), f); });
}

// Computes the output from two inputs.
template <class Function>
void map_binary(const KernelArgs& args, const Function& f) {
  const Tensor& out = args.output();
  const Tensor a = kernels::dense(args.input(0), out.format());
  const Tensor b = kernels::dense(args.input(1), out.format());
  kernels::visit_vector_dtype(b.dtype(), [&]<class T>() {
    map(a.data<T>(), b.data<T>(), out.mutable_data<T>(), b.numel(), f);
  });
}

}  // namespace mezzo::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
