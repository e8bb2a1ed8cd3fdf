#include <algorithm>
#include <cmath>

#include "mezzo/kernels/kernel.h"
#include "mezzo/ops/axis_attrs.h"
#include "mezzo/ops/indexing_attrs.h"

namespace mezzo::kernels::ref {

extern const RefKernel one_hot = [](const RefArgs& args) {
  const RefTensor& labels = args.inputs[0];
  const RefTensor& out = args.outputs[0];
  const std::int64_t classes = args.attrs<OneHotAttrs>().classes;
  std::fill_n(out.data, out.numel(), 0.0);
  for (std::int64_t i = 0; i < labels.numel(); ++i) {
    out[i * classes + checked_index(labels[i], i, classes, "one_hot")] = 1;
  }
};

extern const RefKernel argmax = [](const RefArgs& args) {
  const RefTensor& x = args.inputs[0];
  const std::size_t axis = normalize_axis(args.attrs<AxisAttrs>().axis, x.shape.rank(), "argmax");
  std::int64_t inner = 1;
  for (std::size_t i = axis + 1; i < x.shape.rank(); ++i) inner *= x.shape[i];
  const std::int64_t n = x.shape[axis];
  for (std::int64_t i = 0; i < args.outputs[0].numel(); ++i) {
    const double* row = x.data + i / inner * n * inner + i % inner;
    std::int64_t best = 0;
    for (std::int64_t j = 1; j < n; ++j) {
      const double largest = row[best * inner];
      const double candidate = row[j * inner];
      if (!std::isnan(largest) && (candidate > largest || std::isnan(candidate))) best = j;
    }
    args.outputs[0][i] = static_cast<double>(best);
  }
};

extern const RefKernel embedding = [](const RefArgs& args) {
  const RefTensor& weight = args.inputs[0];
  const RefTensor& indices = args.inputs[1];
  const std::int64_t d = weight.shape[1];
  for (std::int64_t i = 0; i < indices.numel(); ++i) {
    const std::int64_t row = checked_index(indices[i], i, weight.shape[0], "embedding");
    std::copy_n(weight.data + row * d, d, args.outputs[0].data + i * d);
  }
};

extern const RefKernel embedding_grad = [](const RefArgs& args) {
  const RefTensor& indices = args.inputs[1];
  const RefTensor& out = args.outputs[0];
  const std::int64_t d = out.shape[1];
  std::fill_n(out.data, out.numel(), 0.0);
  for (std::int64_t i = 0; i < indices.numel(); ++i) {
    const std::int64_t row = checked_index(indices[i], i, out.shape[0], "embedding_grad");
    for (std::int64_t j = 0; j < d; ++j) out[row * d + j] += args.inputs[0][i * d + j];
  }
};

}  // namespace mezzo::kernels::ref
