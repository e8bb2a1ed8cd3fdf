#include "mezzo/kernels/ref/broadcast.h"
#include "mezzo/ops/slice_attrs.h"

namespace mezzo::kernels::ref {

extern const RefKernel cat = [](const RefArgs& args) {
  const auto axis = static_cast<std::size_t>(args.attrs<CatAttrs>().axis);
  const RefTensor& out = args.outputs[0];
  std::int64_t start = 0;
  for (const RefTensor& input : args.inputs) {
    for (std::int64_t i = 0; i < input.numel(); ++i) {
      Shape index = unravel(i, input.shape);
      index[axis] += start;
      out[broadcast_offset(index, out)] = input[i];
    }
    start += input.shape[axis];
  }
};

}  // namespace mezzo::kernels::ref
