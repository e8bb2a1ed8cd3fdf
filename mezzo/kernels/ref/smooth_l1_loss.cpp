#include <cmath>

#include "mezzo/kernels/kernel.h"
#include "mezzo/ops/smooth_l1_loss_attrs.h"

namespace mezzo::kernels::ref {

extern const RefKernel smooth_l1_loss = [](const RefArgs& args) {
  const auto& attrs = args.attrs<SmoothL1Attrs>();
  for (std::int64_t i = 0; i < args.outputs[0].numel(); ++i) {
    const double d = std::abs(args.inputs[0][i] - args.inputs[1][i]);
    args.outputs[0][i] =
        d < attrs.beta ? attrs.square_factor() * d * d : attrs.slope * (d - attrs.beta / 2);
  }
};

}  // namespace mezzo::kernels::ref
