#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "mezzo/kernels/cpu/smooth_l1_loss.cpp"
#include <hwy/foreach_target.h>

#include "mezzo/kernels/cpu/loops/layout.h"
#include "mezzo/kernels/cpu/simd/math-inl.h"
#include "mezzo/kernels/kernel.h"
#include "mezzo/ops/smooth_l1_loss_attrs.h"

HWY_BEFORE_NAMESPACE();
namespace mezzo::HWY_NAMESPACE {

// 16-bit predictions, which occur only outside of mixed precision, are widened first.
void smooth_l1_loss(const KernelArgs& args) {
  const auto& attrs = args.attrs<SmoothL1Attrs>();
  const auto beta = static_cast<float>(attrs.beta);
  const auto slope = static_cast<float>(attrs.slope);
  const auto factor = static_cast<float>(attrs.square_factor());
  const Tensor& out = args.output();
  const Tensor x = kernels::dense_f32(args.input(0), out.format());
  const Tensor t = kernels::dense_f32(args.input(1), out.format());
  map(x.data<float>(), t.data<float>(), out.mutable_data<float>(), x.numel(),
      [=](F32Vec a, F32Vec b) HWY_ATTR {
        const auto d = hn::Abs(hn::Sub(a, b));
        const auto square = hn::Mul(hn::Mul(d, number(factor)), d);
        const auto line = hn::Mul(hn::Sub(d, number(beta / 2)), number(slope));
        return hn::IfThenElse(hn::Lt(d, number(beta)), square, line);
      });
}

}  // namespace mezzo::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace mezzo::kernels::cpu {
namespace {

HWY_EXPORT(smooth_l1_loss);

}  // namespace

extern const KernelList smooth_l1_loss = simd_kernel([](const KernelArgs& args) {
  HWY_DYNAMIC_DISPATCH(smooth_l1_loss)
  (args);
});

}  // namespace mezzo::kernels::cpu
#endif
