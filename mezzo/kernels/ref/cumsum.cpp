#include "mezzo/kernels/kernel.h"
#include "mezzo/ops/cumsum_attrs.h"

namespace mezzo::kernels::ref {

extern const RefKernel cumsum = [](const RefArgs& args) {
  const auto& attrs = args.attrs<CumsumAttrs>();
  const RefTensor& x = args.inputs[0];
  const auto axis = static_cast<std::size_t>(attrs.axis);
  const std::int64_t size = x.shape[axis];
  std::int64_t inner = 1;
  for (std::size_t i = axis + 1; i < x.shape.rank(); ++i) inner *= x.shape[i];
  const std::int64_t lines = x.numel() == 0 ? 0 : x.numel() / size;
  for (std::int64_t line = 0; line < lines; ++line) {
    const std::int64_t start = line / inner * size * inner + line % inner;
    double sum = 0;
    for (std::int64_t i = 0; i < size; ++i) {
      const std::int64_t at = start + (attrs.reverse ? size - 1 - i : i) * inner;
      sum += x[at];
      args.outputs[0][at] = sum;
    }
  }
};

}  // namespace mezzo::kernels::ref
