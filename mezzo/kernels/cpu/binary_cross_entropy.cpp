#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "mezzo/kernels/cpu/binary_cross_entropy.cpp"
#include <hwy/foreach_target.h>

#include "mezzo/kernels/cpu/loops/layout.h"
#include "mezzo/kernels/cpu/simd/functions-inl.h"
#include "mezzo/kernels/kernel.h"

HWY_BEFORE_NAMESPACE();
namespace mezzo::HWY_NAMESPACE {
namespace {

// 16-bit predictions, which occur only outside of mixed precision, are widened first. That costs
// one more pass over inputs as small as those of a loss.
template <class Function>
void loss(const KernelArgs& args, const Function& f) {
  const Tensor& out = args.output();
  const Tensor x = kernels::dense(args.input(0), out.format()).astype(DType::kF32);
  const Tensor t = kernels::dense(args.input(1), out.format()).astype(DType::kF32);
  map(x.data<float>(), t.data<float>(), out.mutable_data<float>(), x.numel(), f);
}

// At least -100; NaN stays, where a maximum might drop it.
HWY_INLINE F32Vec bounded(F32Vec log) {
  return hn::IfThenElse(hn::Lt(log, number(-100.0F)), number(-100.0F), log);
}

}  // namespace

void probabilities(const KernelArgs& args) {
  loss(args, [](F32Vec p, F32Vec t) HWY_ATTR {
    const auto one = number(1.0F);
    const auto yes = hn::Mul(t, bounded(log(p)));
    const auto no = hn::Mul(hn::Sub(one, t), bounded(log_of_one_plus(hn::Neg(p))));
    return hn::Neg(hn::Add(yes, no));
  });
}

void logits(const KernelArgs& args) {
  loss(args, [](F32Vec x, F32Vec t) HWY_ATTR {
    const auto linear = hn::NegMulAdd(x, t, hn::Max(x, number(0.0F)));
    return hn::Add(linear, log_of_one_plus(exp(hn::Neg(hn::Abs(x)))));
  });
}

}  // namespace mezzo::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace mezzo::kernels::cpu {
namespace {

HWY_EXPORT(probabilities);
HWY_EXPORT(logits);

}  // namespace

extern const KernelList binary_cross_entropy{
    {{{"cpu_simd", vector_dtypes_only, [](const KernelArgs& args) {
         HWY_DYNAMIC_DISPATCH(probabilities)(args);
       }}}}};
extern const KernelList binary_cross_entropy_with_logits{
    {{{"cpu_simd", vector_dtypes_only, [](const KernelArgs& args) {
         HWY_DYNAMIC_DISPATCH(logits)(args);
       }}}}};

}  // namespace mezzo::kernels::cpu
#endif
