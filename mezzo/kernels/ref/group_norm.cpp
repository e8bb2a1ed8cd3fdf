#include "mezzo/kernels/kernel.h"
#include "mezzo/kernels/ref/deviation.h"
#include "mezzo/ops/group_norm_attrs.h"

namespace mezzo::kernels::ref {
namespace {

GroupSizes group_sizes(const RefArgs& args, std::size_t x) {
  return {args.inputs[x].shape, args.attrs<GroupNormAttrs>().groups};
}

// The channel of element i of a group; in row-major order, a group's elements are contiguous.
std::int64_t channel_of(const GroupSizes& sizes, std::int64_t group, std::int64_t i) {
  return group % sizes.groups * sizes.group_channels() + i / sizes.pixels;
}

}  // namespace

extern const RefKernel group_norm = [](const RefArgs& args) {
  using In = GroupNormInput;
  const GroupSizes sizes = group_sizes(args, In::kX);
  const std::int64_t size = sizes.group_numbers();
  for (std::int64_t group = 0; group < sizes.samples * sizes.groups; ++group) {
    const double* in = args.inputs[In::kX].data + group * size;
    double mean = 0;
    for (std::int64_t i = 0; i < size; ++i) mean += in[i] / static_cast<double>(size);
    double var = 0;
    for (std::int64_t i = 0; i < size; ++i) {
      var += (in[i] - mean) * (in[i] - mean) / static_cast<double>(size);
    }
    const double rstd =
        1 / deviation_of(args.inputs[In::kX], var, args.attrs<GroupNormAttrs>().eps);
    for (std::int64_t i = 0; i < size; ++i) {
      const std::int64_t c = channel_of(sizes, group, i);
      const double weight = args.has(In::kWeight) ? args.inputs[In::kWeight][c] : 1;
      const double bias = args.has(In::kBias) ? args.inputs[In::kBias][c] : 0;
      args.outputs[0][group * size + i] = (in[i] - mean) * rstd * weight + bias;
    }
    args.outputs[1][group] = mean;
    args.outputs[2][group] = rstd;
  }
};

extern const RefKernel group_norm_grad = [](const RefArgs& args) {
  using In = GroupNormGradInput;
  const GroupSizes sizes = group_sizes(args, In::kX);
  const std::int64_t size = sizes.group_numbers();
  const auto weight = [&](std::int64_t c) {
    return args.has(In::kWeight) ? args.inputs[In::kWeight][c] : 1;
  };
  for (std::int64_t c = 0; c < sizes.channels; ++c) args.outputs[1][c] = args.outputs[2][c] = 0;
  for (std::int64_t group = 0; group < sizes.samples * sizes.groups; ++group) {
    const double* x = args.inputs[In::kX].data + group * size;
    const double* grad = args.inputs[In::kGrad].data + group * size;
    const double mean = args.inputs[In::kMean][group];
    const double rstd = args.inputs[In::kRstd][group];
    double sum = 0;
    double products = 0;
    for (std::int64_t i = 0; i < size; ++i) {
      const std::int64_t c = channel_of(sizes, group, i);
      const double normal = (x[i] - mean) * rstd;
      args.outputs[1][c] += grad[i] * normal;
      args.outputs[2][c] += grad[i];
      sum += grad[i] * weight(c);
      products += grad[i] * weight(c) * normal;
    }
    for (std::int64_t i = 0; i < size; ++i) {
      const double normal = (x[i] - mean) * rstd;
      const double scaled = grad[i] * weight(channel_of(sizes, group, i));
      args.outputs[0][group * size + i] =
          rstd * (scaled - (sum + normal * products) / static_cast<double>(size));
    }
  }
};

}  // namespace mezzo::kernels::ref
