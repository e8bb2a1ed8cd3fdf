#include <algorithm>

#include "mezzo/kernels/kernel.h"
#include "mezzo/kernels/ref/broadcast.h"
#include "mezzo/ops/axis_attrs.h"
#include "mezzo/ops/indexing_attrs.h"

namespace mezzo::kernels::ref {
namespace {

// The element of x that element i of the index names.
std::int64_t place_in(const RefTensor& x, const RefTensor& index, std::int64_t i, const char* op,
                      const AxisAttrs& attrs) {
  const auto axis = static_cast<std::size_t>(attrs.axis);
  Shape at = unravel(i, index.shape);
  at[axis] = checked_index(index[i], i, x.shape[axis], op);
  std::int64_t offset = 0;
  for (std::size_t k = 0; k < at.rank(); ++k) offset = offset * x.shape[k] + at[k];
  return offset;
}

}  // namespace

extern const RefKernel gather = [](const RefArgs& args) {
  const RefTensor& x = args.inputs[0];
  const RefTensor& index = args.inputs[1];
  for (std::int64_t i = 0; i < index.numel(); ++i) {
    args.outputs[0][i] = x[place_in(x, index, i, "gather", args.attrs<AxisAttrs>())];
  }
};

extern const RefKernel scatter_add = [](const RefArgs& args) {
  const RefTensor& x = args.inputs[0];
  const RefTensor& index = args.inputs[1];
  const RefTensor& out = args.outputs[0];
  std::copy_n(x.data, x.numel(), out.data);
  for (std::int64_t i = 0; i < index.numel(); ++i) {
    out[place_in(x, index, i, "scatter_add", args.attrs<AxisAttrs>())] += args.inputs[2][i];
  }
};

}  // namespace mezzo::kernels::ref
