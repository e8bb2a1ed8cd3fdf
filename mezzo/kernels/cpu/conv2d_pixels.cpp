#include "mezzo/kernels/cpu/conv2d_pixels.h"

#include <algorithm>
#include <optional>

#include "mezzo/core/parallel.h"
#include "mezzo/kernels/cpu/conv2d_pointwise.h"
#include "mezzo/kernels/cpu/conv2d_problem.h"
#include "mezzo/kernels/cpu/layout.h"
#include "mezzo/kernels/cpu/patches.h"
#include "mezzo/kernels/cpu/pixel_rows.h"
#include "mezzo/kernels/cpu/tiles.h"
#include "mezzo/ops/norm_statistics.h"

namespace mezzo::kernels::conv {
namespace {

using pixels::kBlock;
using pixels::Product;
using pixels::rows_of_strip;
using pixels::Unit;

// The sizes of a call, as a product of pixels and the weight seen as [outer, inner].
struct Sizes {
  std::int64_t pixels = 0, inner = 0, outer = 0;
};

// Of images [n, c, h, w], of which `pixels` has as many pixels as are multiplied.
Sizes sizes_of(const Tensor& x, const Tensor& y, const Tensor& pixels) {
  const Shape& shape = pixels.shape();
  return {shape[0] * shape[2] * shape[3], x.size(1), y.size(1)};
}
Sizes forward_sizes(const KernelArgs& args) {
  return sizes_of(args.input(0), args.output(), args.output());
}
Sizes grad_input_sizes(const KernelArgs& args) {
  return sizes_of(args.input(0), args.output(), args.input(0));
}

Support supports_sizes(const Sizes& sizes) {
  if (sizes.inner % kBlock != 0 || sizes.outer % kBlock != 0) {
    return Support::no("only for multiples of 32 channels");
  }
  return Support::yes();
}

Support supports_pixel_operands(const KernelArgs& args) {
  if (!bf16_unit()) return Support::no("this CPU has neither AMX nor a fast bf16 dot product");
  return supports_bf16_tensors(args);
}

// Columns of the result that are divided among threads where there are few strips.
std::int64_t column_parts_for(std::int64_t strips, std::int64_t columns) {
  constexpr std::int64_t kPartsOfThread = 4;  // so many that the last ones end at about one time
  constexpr std::int64_t kLeastColumns = 4 * kBlock;
  const std::int64_t wanted = (kPartsOfThread * num_threads() + strips - 1) / strips;
  return std::clamp<std::int64_t>(wanted, 1, std::max<std::int64_t>(columns / kLeastColumns, 1));
}

void multiply(const Product& product, std::int64_t pixels) {
  const std::int64_t strip = rows_of_strip(product.unit);
  const std::int64_t strips = (pixels + strip - 1) / strip;
  const std::int64_t blocks = product.outer / kBlock;
  const std::int64_t parts = column_parts_for(std::max<std::int64_t>(strips, 1), product.outer);
  // A few microseconds. To read and write a number takes as long as some tens of products.
  constexpr std::int64_t kProducts = std::int64_t{1} << 18;
  constexpr std::int64_t kNumber = 64;
  const std::int64_t cost =
      product.inner * product.outer + kNumber * (product.inner + product.outer);
  const std::int64_t grain = std::max<std::int64_t>(1, kProducts * parts / cost);
  // A thread's strips follow each other, under columns whose weight it alone reads.
  parallel_for(parts * strips, grain, [&](std::int64_t begin, std::int64_t end) {
    while (begin < end) {
      const std::int64_t part = begin / strips;
      const std::int64_t first = begin % strips;
      const std::int64_t last = std::min(strips, first + end - begin);
      pixels::multiply(product, {first * strip, std::min(last * strip, pixels)},
                       {part * blocks / parts * kBlock, (part + 1) * blocks / parts * kBlock});
      begin += last - first;
    }
  });
}

// All of the weight is read for each strip.
bool is_one_chunk(const Sizes& sizes) {
  return 2 * sizes.inner * sizes.outer <= pixels::kChunkBytes;
}

// Where rows of batch_norm are pixels.
bool can_sum(const Sizes& sizes) {
  constexpr std::int64_t kWideRow = 256;
  return sizes.outer >= kWideRow && is_one_chunk(sizes);
}

NormStatistics multiply_and_sum(const Product& product, const Shape& shape) {
  const NormSums sums(shape);
  parallel_for(sums.rows().parts, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t part = begin; part < end; ++part) {
      pixels::multiply_and_sum(product, sums, static_cast<int>(part));
    }
  });
  NormStatistics found{empty({product.outer}, DType::kF32), empty({product.outer}, DType::kF32)};
  sums.combine(found.mean.mutable_data<float>(), found.var.mutable_data<float>());
  return found;
}

// Of pixels without gaps. The backward pass multiplies with the transposed weight.
struct Call {
  Unit unit;
  ReadIn pass;
  Tensor x;
  const NormArrays* norm;
  const Tensor& weight;
  Tensor bias{};  // f32, dense, or none
  Tensor y;
};

void run(const Call& call) {
  const Sizes sizes = sizes_of(call.x, call.y, call.y);
  const Shape dims{sizes.outer, sizes.inner, 1, 1};
  const Strides& s = call.weight.strides();
  const Strides strides = call.pass == ReadIn::kForward ? s : Strides{s[1], s[0], s[2], s[3]};
  const onednn::Desc tiles({dims[0], dims[1], 1, 1}, dnnl::memory::data_type::bf16,
                           dnnl::memory::format_tag::OIhw16i16o2i);
  const onednn::Packed weight = onednn::packed(call.weight, dims, strides, tiles, call.pass);
  const Product product{.unit = call.unit,
                        .x = call.x.data<BFloat16>(),
                        .weight = static_cast<const char*>(weight.memory.get_data_handle()),
                        .bias = call.bias.defined() ? call.bias.data<float>() : nullptr,
                        .y = call.y.mutable_data<BFloat16>(),
                        .inner = sizes.inner,
                        .outer = sizes.outer,
                        .norm = call.norm};
  NormStatistics* const wanted = wanted_statistics();
  if (wanted != nullptr && call.pass == ReadIn::kForward && can_sum(sizes)) {
    *wanted = multiply_and_sum(product, call.y.shape());
  } else {
    multiply(product, sizes.pixels);
  }
}

void run_forward(const KernelArgs& args, Unit unit) {
  const Size2d stride = args.attrs<Conv2dAttrs>().stride;
  const NormAgain* const unfilled = unfilled_norm(args.input(0));
  std::optional<NormArrays> norm;
  if (unfilled != nullptr && normalises_pixels(args, 0, unfilled->residual.defined())) {
    norm.emplace(*unfilled);
  }
  const Tensor& y = args.output();
  const Tensor x = dense(norm ? unfilled->x : args.input(0), Format::kChannelsLast);
  run({.unit = unit,
       .pass = ReadIn::kForward,
       .x = stride == Size2d(1)
                ? x
                : gather_patches(x, {.count = {y.size(2), y.size(3)}, .stride = stride}),
       .norm = norm ? &*norm : nullptr,
       .weight = args.input(1),
       .bias = args.has(2) ? dense_f32(args.input(2)) : Tensor(),
       .y = y});
}

void run_grad_input(const KernelArgs& args, Unit unit) {
  const Size2d stride = args.attrs<Conv2dGradAttrs>().conv.stride;
  const Tensor& out = args.output();
  const Tensor grad = dense(args.input(0), Format::kChannelsLast);
  const Shape small{grad.size(0), out.size(1), grad.size(2), grad.size(3)};
  const bool has_gaps = small != out.shape();
  const Tensor y = has_gaps ? empty(small, out.dtype(), Format::kChannelsLast) : out;
  run({.unit = unit,
       .pass = ReadIn::kBackward,
       .x = grad,
       .norm = nullptr,
       .weight = args.input(1),
       .y = y});
  if (has_gaps) spread_patches(y, {.count = {grad.size(2), grad.size(3)}, .stride = stride}, out);
}

}  // namespace

Support supports_pixels(const KernelArgs& args) {
  const Support operands = supports_pixel_operands(args);
  if (!operands) return operands;
  const Shape& weight = args.input(1).shape();
  if (!args.attrs<Conv2dAttrs>().is_pointwise({weight[2], weight[3]})) {
    return Support::no("only for plain 1x1 kernels");
  }
  return supports_sizes(forward_sizes(args));
}

bool normalises_pixels(const KernelArgs& args, std::size_t input, bool adds) {
  return input == 0 && !adds && is_one_chunk(forward_sizes(args));
}

Support supports_pixels_grad_input(const KernelArgs& args) {
  const Support operands = supports_pixel_operands(args);
  if (!operands) return operands;
  if (!is_pointwise(args)) return Support::no("only for plain 1x1 kernels");
  return supports_sizes(grad_input_sizes(args));
}

void run_pixels(const KernelArgs& args, Unit unit) {
  onednn::guarded("conv2d", args, [&] { run_forward(args, unit); });
}

void run_pixels_grad_input(const KernelArgs& args, Unit unit) {
  onednn::guarded("conv2d_grad_input", args, [&] { run_grad_input(args, unit); });
}

void run_pixels(const KernelArgs& args) { run_pixels(args, *bf16_unit()); }
void run_pixels_grad_input(const KernelArgs& args) { run_pixels_grad_input(args, *bf16_unit()); }

}  // namespace mezzo::kernels::conv
