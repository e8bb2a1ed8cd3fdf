#include <algorithm>

#include "mezzo/kernels/ref/broadcast.h"
#include "mezzo/ops/slice_attrs.h"

namespace mezzo::kernels::ref {

extern const RefKernel slice_grad = [](const RefArgs& args) {
  const auto& attrs = args.attrs<SliceGradAttrs>();
  const auto axis = static_cast<std::size_t>(attrs.slice.axis);
  const RefTensor& grad = args.inputs[0];
  const RefTensor& out = args.outputs[0];
  std::fill_n(out.data, out.numel(), 0.0);
  for (std::int64_t i = 0; i < grad.numel(); ++i) {
    Shape index = unravel(i, grad.shape);
    index[axis] = attrs.slice.start + index[axis] * attrs.slice.step;
    out[broadcast_offset(index, out)] = grad[i];
  }
};

}  // namespace mezzo::kernels::ref
