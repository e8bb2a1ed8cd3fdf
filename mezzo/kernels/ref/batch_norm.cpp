#include "mezzo/kernels/kernel.h"
#include "mezzo/kernels/ref/deviation.h"
#include "mezzo/ops/batch_norm_attrs.h"
#include "mezzo/ops/norm_together.h"

namespace mezzo::kernels::ref {
namespace {

using In = BatchNormInput;

// The channel of element i of a row-major [n, c, ...].
std::int64_t channel_of(std::int64_t i, const Shape& shape) {
  std::int64_t inner = 1;
  for (std::size_t axis = 2; axis < shape.rank(); ++axis) inner *= shape[axis];
  return i / inner % shape[1];
}

// The number of values per channel.
std::int64_t count_of(const RefTensor& x) { return x.numel() / x.shape[1]; }

void batch_statistics(const RefTensor& x, const RefTensor& mean, const RefTensor& var) {
  const auto count = static_cast<double>(count_of(x));
  for (std::int64_t c = 0; c < x.shape[1]; ++c) mean[c] = var[c] = 0;
  for (std::int64_t i = 0; i < x.numel(); ++i) mean[channel_of(i, x.shape)] += x[i] / count;
  for (std::int64_t i = 0; i < x.numel(); ++i) {
    const std::int64_t c = channel_of(i, x.shape);
    var[c] += (x[i] - mean[c]) * (x[i] - mean[c]) / count;
  }
}

void normalize(const RefArgs& args) {
  const auto& attrs = args.attrs<BatchNormAttrs>();
  const RefTensor& x = args.inputs[In::kX];
  const RefTensor mean = attrs.training ? args.outputs[1] : args.inputs[In::kRunningMean];
  const RefTensor var = attrs.training ? args.outputs[2] : args.inputs[In::kRunningVar];
  if (attrs.training) {
    batch_statistics(x, mean, var);
    share_statistics(attrs.processes, count_of(x), mean.values(), var.values());
  }
  for (std::int64_t i = 0; i < x.numel(); ++i) {
    const std::int64_t c = channel_of(i, x.shape);
    const double weight = args.has(In::kWeight) ? args.inputs[In::kWeight][c] : 1;
    const double bias = args.has(In::kBias) ? args.inputs[In::kBias][c] : 0;
    double y = (x[i] - mean[c]) / deviation_of(x, var[c], attrs.eps) * weight + bias;
    if (args.has(In::kResidual)) y += args.inputs[In::kResidual][i];
    args.outputs[0][i] = attrs.relu && y <= 0 ? 0 : y;
  }
}

}  // namespace

extern const RefKernel batch_norm = normalize;
extern const RefKernel batch_norm_add_relu = normalize;

}  // namespace mezzo::kernels::ref
