#include "mezzo/kernels/cuda/map.cuh"
#include "mezzo/ops/smooth_l1_loss_attrs.h"

namespace mezzo::kernels::cuda {
namespace {

struct Distance {
  float beta;
  float slope;
  float factor;
  __device__ float operator()(float x, float target) const {
    const float d = fabsf(x - target);
    return d < beta ? factor * d * d : slope * (d - beta / 2);
  }
};

// f32, whatever the inputs, because losses are summed next. In mixed precision the inputs are f32,
// too.
void run_smooth_l1(const KernelArgs& args) {
  const auto& attrs = args.attrs<SmoothL1Attrs>();
  const Tensor& losses = args.output();
  const Launch launch(losses);
  const Tensor x = dense_f32(args.input(0), losses.format());
  const Tensor target = dense_f32(args.input(1), losses.format());
  const Distance distance{static_cast<float>(attrs.beta), static_cast<float>(attrs.slope),
                          static_cast<float>(attrs.square_factor())};
  map(launch, distance, x.numel(), out<float>(losses), in<float>(x), in<float>(target));
}

}  // namespace

extern const KernelList smooth_l1_loss{{{{"cuda", float_dtypes_only, run_smooth_l1}}}};

}  // namespace mezzo::kernels::cuda
