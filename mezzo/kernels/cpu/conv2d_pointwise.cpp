#include "mezzo/kernels/cpu/conv2d_pointwise.h"

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "mezzo/core/parallel.h"
#include "mezzo/kernels/cpu/conv2d_problem.h"
#include "mezzo/kernels/cpu/layout.h"

namespace mezzo::kernels::conv {
namespace {

// The gradient by x of a convolution with 1x1 kernels is one as well: of the result's gradient,
// with the transposed weight. oneDNN's kernels for forward passes are the faster ones (see
// docs/benchmarks.md). A stride leaves pixels between that no output was computed from.
Problem pointwise_problem(const KernelArgs& args) {
  const Shape& grad = args.input(0).shape();
  const std::int64_t channels = args.input(1).size(1);
  return {Pass::kForward,
          grad,
          {channels, grad[1], 1, 1},
          {grad[0], channels, grad[2], grad[3]},
          Conv2dAttrs{},
          args.input(0).dtype(),
          args.output().dtype()};
}

}  // namespace

bool is_pointwise(const KernelArgs& args) {
  const Shape& weight = args.input(1).shape();
  return args.attrs<Conv2dGradAttrs>().conv.is_pointwise({weight[2], weight[3]});
}

Support supports_pointwise(const KernelArgs& args) {
  const Support dtypes = onednn::supports_dtypes(args);
  if (!dtypes) return dtypes;
  if (!is_pointwise(args)) return Support::no("only for 1x1 kernels without padding or groups");
  return support(pointwise_problem(args));
}

namespace {

// Writes the pixels of `from` to every stride-th row and column of `to`, and zeros between them.
// Both are channels-last.
void spread_pixels(const Tensor& from, const Tensor& to, Size2d stride) {
  const Shape& in = from.shape();
  const Shape& out = to.shape();
  const auto pixel = static_cast<std::size_t>(out[1]) * size_of(to.dtype());
  const auto width = static_cast<std::size_t>(out[3]) * pixel;
  const auto* source = static_cast<const std::byte*>(from.raw_data());
  auto* target = static_cast<std::byte*>(to.mutable_raw_data());
  constexpr std::size_t kGrainBytes = 1 << 16;
  const auto grain = static_cast<std::int64_t>(kGrainBytes / std::max<std::size_t>(width, 1));
  parallel_for(out[0] * out[2], grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      const std::int64_t h = row % out[2];
      std::byte* const to_row = target + static_cast<std::size_t>(row) * width;
      std::memset(to_row, 0, width);
      if (h % stride.h != 0 || h / stride.h >= in[2]) continue;
      const std::int64_t from_row = row / out[2] * in[2] + h / stride.h;
      for (std::int64_t w = 0; w < in[3]; ++w) {
        std::memcpy(to_row + static_cast<std::size_t>(w * stride.w) * pixel,
                    source + static_cast<std::size_t>(from_row * in[3] + w) * pixel, pixel);
      }
    }
  });
}

}  // namespace

void grad_input_pointwise(const KernelArgs& args) {
  onednn::guarded("conv2d_grad_input", args, [&] {
    const Problem p = pointwise_problem(args);
    const auto primitive = find(p);
    const Tensor grad = dense(args.input(0), Format::kChannelsLast);
    const Tensor& weight = args.input(1);
    const Strides& s = weight.strides();
    const onednn::Packed packed = onednn::packed(weight, p.weight, {s[1], s[0], s[2], s[3]},
                                                 primitive->weights, ReadIn::kBackward);
    const Tensor& out = args.output();
    const bool has_gaps = p.y != out.shape();
    const Tensor result = has_gaps ? empty(p.y, out.dtype(), Format::kChannelsLast) : out;
    onednn::execute(*primitive, {{DNNL_ARG_SRC, image_memory(grad)},
                                 {DNNL_ARG_WEIGHTS, packed.memory},
                                 {DNNL_ARG_DST, image_memory(result)}});
    if (has_gaps) spread_pixels(result, out, args.attrs<Conv2dGradAttrs>().conv.stride);
  });
}

}  // namespace mezzo::kernels::conv
