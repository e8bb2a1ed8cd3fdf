// Casts and copies between dtypes and memory layouts.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "mezzo/kernels/cpu/cast.cpp"
#include <hwy/foreach_target.h>

#include "mezzo/kernels/cpu/layout.h"
#include "mezzo/kernels/cpu/simd-inl.h"
#include "mezzo/kernels/kernel.h"

HWY_BEFORE_NAMESPACE();
namespace mezzo::HWY_NAMESPACE {

// Both tensors are dense in the same order.
void cast_flat(const Tensor& in, const Tensor& out) {
  kernels::visit_vector_dtype(in.dtype(), [&]<class In>() {
    kernels::visit_vector_dtype(out.dtype(), [&]<class Out>() {
      map(in.data<In>(), out.mutable_data<Out>(), in.numel(), [](F32Vec v) HWY_ATTR { return v; });
    });
  });
}

}  // namespace mezzo::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace mezzo::kernels::cpu {
namespace {

HWY_EXPORT(cast_flat);

void cast_dense(const KernelArgs& args) {
  const Tensor& in = args.input(0);
  const Tensor& out = args.output();
  if (in.dtype() == out.dtype()) {
    std::memcpy(out.mutable_raw_data(), in.raw_data(), in.bytes());
  } else {
    HWY_DYNAMIC_DISPATCH(cast_flat)(in, out);
  }
}

Support supports_dense(const KernelArgs& args) {
  const Tensor& in = args.input(0);
  const Tensor& out = args.output();
  if (!same_dense_layout(in, out)) return Support::no("the layouts differ");
  if (in.dtype() == out.dtype()) return Support::yes();
  return is_vector_dtype(in.dtype()) && is_vector_dtype(out.dtype())
             ? Support::yes()
             : Support::no("only f32, bf16 and f16 are vectorised");
}

void copy_strided(const KernelArgs& args) { copy_elements(args.input(0), args.output()); }

}  // namespace

extern const KernelList cast{
    {{{"cpu_dense", supports_dense, cast_dense}, {"cpu_strided", nullptr, copy_strided}}}};
extern const KernelList to_format{
    {{{"cpu_dense", supports_dense, cast_dense}, {"cpu_strided", nullptr, copy_strided}}}};

}  // namespace mezzo::kernels::cpu
#endif
