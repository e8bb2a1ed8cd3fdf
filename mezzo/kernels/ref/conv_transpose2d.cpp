#include "mezzo/kernels/kernel.h"
#include "mezzo/ops/conv2d_attrs.h"

namespace mezzo::kernels::ref {

extern const RefKernel conv2d_grad_input;

extern const RefKernel conv_transpose2d = [](const RefArgs& args) {
  const RefTensor& out = args.outputs[0];
  const Conv2dGradAttrs attrs{args.attrs<ConvTranspose2dAttrs>().conv,
                              {out.shape[2], out.shape[3]}};
  conv2d_grad_input({args.inputs, args.outputs, attrs});
  if (!args.has(2)) return;
  const std::int64_t plane = out.shape[2] * out.shape[3];
  for (std::int64_t i = 0; i < out.numel(); ++i) {
    out[i] += args.inputs[2][i / plane % out.shape[1]];
  }
};

}  // namespace mezzo::kernels::ref
