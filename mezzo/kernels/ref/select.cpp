#include "mezzo/kernels/ref/broadcast.h"
#include "mezzo/ops/select_attrs.h"

namespace mezzo::kernels::ref {

extern const RefKernel where = [](const RefArgs& args) {
  const RefTensor& out = args.outputs[0];
  for (std::int64_t i = 0; i < out.numel(); ++i) {
    const Shape index = unravel(i, out.shape);
    const bool condition = args.inputs[0][broadcast_offset(index, args.inputs[0])] != 0;
    const RefTensor& chosen = args.inputs[condition ? 1 : 2];
    out[i] = chosen[broadcast_offset(index, chosen)];
  }
};

extern const RefKernel masked_fill = [](const RefArgs& args) {
  const auto& attrs = args.attrs<MaskedFillAttrs>();
  const RefTensor& x = args.inputs[0];
  const RefTensor& mask = args.inputs[1];
  const RefTensor& out = args.outputs[0];
  const double number = filling(attrs.number, x.dtype);
  for (std::int64_t i = 0; i < out.numel(); ++i) {
    const Shape index = unravel(i, out.shape);
    const bool is_filled = (mask[broadcast_offset(index, mask)] != 0) == attrs.where;
    out[i] = is_filled ? number : x[broadcast_offset(index, x)];
  }
};

extern const RefKernel maximum_grad = [](const RefArgs& args) {
  const RefTensor& grad = args.inputs[0];
  for (std::int64_t i = 0; i < grad.numel(); ++i) {
    const Shape index = unravel(i, grad.shape);
    const double a = args.inputs[1][broadcast_offset(index, args.inputs[1])];
    const double b = args.inputs[2][broadcast_offset(index, args.inputs[2])];
    args.outputs[0][i] = a == b ? grad[i] / 2 : a < b ? 0 : grad[i];
  }
};

}  // namespace mezzo::kernels::ref
