#include "mezzo/kernels/cpu/conv2d_pixels.h"

#include <algorithm>
#include <optional>

#include "mezzo/core/parallel.h"
#include "mezzo/kernels/cpu/conv2d_pointwise.h"
#include "mezzo/kernels/cpu/conv2d_problem.h"
#include "mezzo/kernels/cpu/layout.h"
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

Sizes sizes_of(const KernelArgs& args) {
  const Shape& x = args.input(0).shape();
  return {x[0] * x[2] * x[3], x[1], args.output().size(1)};
}

// Time on tiles relative to oneDNN 2.6.3, 16 images with their memory in the caches and out of
// them: 0.73 to 0.93 where channels double or more, 0.8 to 1 for 64 to 64, 0.65 to 0.9 for 7x7
// pixels and any channels; elsewhere 1 to 1.2. By dot products: 0.73 to 1 everywhere.
bool is_worth_it(const KernelArgs& args, const Sizes& sizes) {
  if (bf16_unit() == Unit::kDots) return true;
  constexpr std::int64_t kShortSum = 64;
  constexpr std::int64_t kFewPixels = 64;
  const Shape& x = args.input(0).shape();
  return sizes.outer >= 2 * sizes.inner || sizes.inner <= kShortSum || x[2] * x[3] <= kFewPixels;
}

Support supports_sizes(const KernelArgs& args) {
  const Sizes sizes = sizes_of(args);
  if (sizes.inner % kBlock != 0 || sizes.outer % kBlock != 0) {
    return Support::no("only for multiples of 32 channels");
  }
  if (!is_worth_it(args, sizes)) return Support::no("oneDNN is as fast for long sums");
  return Support::yes();
}

Support supports_operands(const KernelArgs& args) {
  if (!bf16_unit()) return Support::no("this CPU has neither AMX nor a fast bf16 dot product");
  return supports_bf16_tensors(args);
}

void multiply(const Product& product, std::int64_t pixels) {
  const std::int64_t strip = rows_of_strip(product.unit);
  const std::int64_t strips = (pixels + strip - 1) / strip;
  // A few microseconds of products.
  const std::int64_t grain =
      std::max<std::int64_t>(1, (std::int64_t{1} << 18) / (product.inner * product.outer));
  parallel_for(strips, grain, [&](std::int64_t begin, std::int64_t end) {
    pixels::multiply(product, begin * strip, std::min(end * strip, pixels));
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

// `strides` are those of the weight as [outer, inner, 1, 1].
void run(const KernelArgs& args, Unit unit, const Strides& strides, ReadIn pass) {
  const Sizes sizes = sizes_of(args);
  const Shape dims{sizes.outer, sizes.inner, 1, 1};
  const onednn::Desc tiles({dims[0], dims[1], 1, 1}, dnnl::memory::data_type::bf16,
                           dnnl::memory::format_tag::OIhw16i16o2i);
  const NormAgain* const unfilled = unfilled_norm(args.input(0));
  std::optional<NormArrays> norm;
  if (unfilled != nullptr && normalises_pixels(args, 0, unfilled->residual.defined())) {
    norm.emplace(*unfilled);
  }
  const Tensor x = dense(norm ? unfilled->x : args.input(0), Format::kChannelsLast);
  const onednn::Packed weight = onednn::packed(args.input(1), dims, strides, tiles, pass);
  const Product product{.unit = unit,
                        .x = x.data<BFloat16>(),
                        .weight = static_cast<const char*>(weight.memory.get_data_handle()),
                        .y = args.output().mutable_data<BFloat16>(),
                        .inner = sizes.inner,
                        .outer = sizes.outer,
                        .norm = norm ? &*norm : nullptr};
  NormStatistics* const wanted = wanted_statistics();
  if (wanted != nullptr && pass == ReadIn::kForward && can_sum(sizes)) {
    *wanted = multiply_and_sum(product, args.output().shape());
  } else {
    multiply(product, sizes.pixels);
  }
}

}  // namespace

Support supports_pixels(const KernelArgs& args) {
  const Support operands = supports_operands(args);
  if (!operands) return operands;
  const Shape& weight = args.input(1).shape();
  const Conv2dAttrs plain{};
  if (weight[2] != 1 || weight[3] != 1 || args.has(2) || !(args.attrs<Conv2dAttrs>() == plain)) {
    return Support::no("only for plain 1x1 kernels");
  }
  return supports_sizes(args);
}

bool normalises_pixels(const KernelArgs& args, std::size_t input, bool adds) {
  return input == 0 && !adds && is_one_chunk(sizes_of(args));
}

Support supports_pixels_grad_input(const KernelArgs& args) {
  const Support operands = supports_operands(args);
  if (!operands) return operands;
  if (!is_pointwise(args) || args.attrs<Conv2dGradAttrs>().conv.stride != Size2d(1)) {
    return Support::no("only for plain 1x1 kernels");
  }
  return supports_sizes(args);
}

void run_pixels(const KernelArgs& args, Unit unit) {
  onednn::guarded("conv2d", args,
                  [&] { run(args, unit, args.input(1).strides(), ReadIn::kForward); });
}

void run_pixels_grad_input(const KernelArgs& args, Unit unit) {
  onednn::guarded("conv2d_grad_input", args, [&] {
    const Strides& s = args.input(1).strides();
    run(args, unit, {s[1], s[0], s[2], s[3]}, ReadIn::kBackward);
  });
}

void run_pixels(const KernelArgs& args) { run_pixels(args, *bf16_unit()); }
void run_pixels_grad_input(const KernelArgs& args) { run_pixels_grad_input(args, *bf16_unit()); }

}  // namespace mezzo::kernels::conv
