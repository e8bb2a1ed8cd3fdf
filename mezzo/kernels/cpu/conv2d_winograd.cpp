#include "mezzo/kernels/cpu/conv2d_winograd.h"

#include <algorithm>

#include "mezzo/core/cpu.h"
#include "mezzo/core/parallel.h"
#include "mezzo/core/scratch.h"
#include "mezzo/kernels/cpu/conv2d_problem.h"
#include "mezzo/kernels/cpu/layout.h"
#include "mezzo/kernels/cpu/winograd.h"
#include "mezzo/ops/cast.h"

namespace mezzo::kernels::conv {
namespace {

using winograd::Convolution;
using winograd::kResults;
using winograd::kTaps;
using winograd::RoundedWeight;
using winograd::Tiling;
using winograd::WeightGradient;

constexpr std::uint64_t kTransformed = 0x77696e6f;  // DerivedKey::kind of transformed weights

struct KeptWeight final : RefCounted {
  explicit KeptWeight(Tensor numbers) : transformed(std::move(numbers)) {}
  Tensor transformed;
};

Support supports_winograd_operands(const KernelArgs& args) {
  const Support dtypes = vector_dtypes_only(args);
  if (!dtypes) return dtypes;
  if (!has_vectors()) return Support::no("needs AVX2 or NEON");
  // Rounded to 16 bits between the steps, the bits that cancel would be missing: everything is f32.
  if (args.input(0).dtype() == DType::kBf16 && cpu_features().amx_bf16) {
    return Support::no("the CPU multiplies bf16 much faster than f32");
  }
  return Support::yes();
}

Tiling tiling_of(const Problem& p) {
  return {.images = p.x[0],
          .image = {p.x[2], p.x[3]},
          .results = {p.y[2], p.y[3]},
          .top = p.attrs.padding.top,
          .left = p.attrs.padding.left};
}

// `fewest_tiles`: for a large weight.
Support supports_shapes(const Problem& problem, std::int64_t fewest_tiles) {
  const Conv2dAttrs& attrs = problem.attrs;
  if (Size2d{problem.weight[2], problem.weight[3]} != Size2d(kTaps) || attrs.stride != Size2d(1) ||
      attrs.dilation != Size2d(1) || attrs.groups != 1) {
    return Support::no("Winograd's method is for dense 3x3 kernels at stride 1");
  }
  // Measured (docs/benchmarks/convolutions.md). Transforms pay if many channels share those of an
  // image and enough tiles those of the weight, which take longer when it leaves the caches.
  constexpr std::int64_t kFewestChannels = 24;
  constexpr std::int64_t kLargeWeight = 1 << 16;
  const std::int64_t in = problem.x[1];
  const std::int64_t out = problem.y[1];
  if (std::min(in, out) < kFewestChannels) {
    return Support::no("Winograd's method is slower for few channels");
  }
  const Tiling tiling = tiling_of(problem);
  if (tiling.tiles() * kLargeWeight < fewest_tiles * std::min(in * out, kLargeWeight)) {
    return Support::no("Winograd's method is slower for few pixels");
  }
  const Size2d results = tiling.results;
  if (2 * results.h * results.w < tiling.rows() * tiling.columns() * kResults * kResults) {
    return Support::no("tiles of 4x4 pixels would cover too much besides the image");
  }
  return Support::yes();
}

// A dot product of bf16 does twice the arithmetic of f32's multiply-add: less is won, and what the
// transforms take counts twice. Measured (docs/benchmarks/convolutions.md), like the rest.
Support supports_beside_dot_product(const Problem& problem) {
  const Tiling tiling = tiling_of(problem);
  const std::int64_t tiles = tiling.tiles();
  const std::int64_t in = problem.x[1];
  const std::int64_t out = problem.y[1];
  if (problem.pass == Pass::kGradWeight) {
    constexpr std::int64_t kLeastWork = 1 << 19;
    return tiles * in * out >= kLeastWork ? Support::yes()
                                          : Support::no("the dot product is faster for so little");
  }
  constexpr std::int64_t kFewestTiles = 64;
  if (tiles < kFewestTiles) {
    return Support::no("the dot product is faster for few pixels");
  }
  const Size2d results = tiling.results;
  return 2 * tiling.points() <= 5 * results.h * results.w
             ? Support::yes()
             : Support::no("the dot product is faster for images that are no whole tiles");
}

Support supports_winograd_of(const KernelArgs& args, const Problem& problem) {
  const Support operands = supports_winograd_operands(args);
  if (!operands) return operands;
  if (args.input(0).dtype() == DType::kBf16 && has_fast_bf16_dot()) {
    const Support dot_product = supports_beside_dot_product(problem);
    if (!dot_product) return dot_product;
  }
  return supports_shapes(problem, problem.pass == Pass::kGradWeight ? 32 : 16);
}

// `count` channels from `begin` on, in the same memory.
Tensor channels(const Tensor& tensor, std::size_t axis, std::int64_t begin, std::int64_t count) {
  Shape shape = tensor.shape();
  shape[axis] = count;
  return alias(tensor, shape, tensor.strides(), tensor.offset() + begin * tensor.strides()[axis]);
}

// The gradient of y, beside as much padding as makes the first window end at the first pixel of x.
Tiling turned_tiling_of(const Problem& p) {
  return {.images = p.x[0],
          .image = {p.y[2], p.y[3]},
          .results = {p.x[2], p.x[3]},
          .top = kTaps - 1 - p.attrs.padding.top,
          .left = kTaps - 1 - p.attrs.padding.left};
}

RoundedWeight rounded(const Tensor& weight) {
  const Tensor parameter = unfilled_source(weight);
  return {parameter.defined() ? parameter : weight, weight.dtype()};
}

Tensor transformed(const Convolution& convolution, const Tensor& weight) {
  const Tensor result = empty({convolution.weight().floats()});
  winograd::transform_weight(convolution, rounded(weight), result.mutable_data<float>());
  return result;
}

// The transformed weight is kept beside a parameter that is read in this form again before it
// changes, as in evaluation. Training reads each form once, and gets none.
Tensor kept_weight(const Convolution& convolution, const Tensor& weight) {
  if (!onednn::is_worth_keeping(weight)) return {};
  const DerivedKey key = derived_key(weight, kTransformed, convolution.turned ? 1U : 0U);
  const std::uint64_t version = weight.version();
  DerivedCopies& derived = weight.storage()->derived();
  if (const auto found = derived.find(key, version)) {
    return static_cast<const KeptWeight*>(found.get())->transformed;
  }
  const Strides& s = weight.strides();
  const Shape seen{convolution.out, convolution.in, kTaps, kTaps};
  const Shape steps = convolution.turned ? Shape{s[1], s[0], s[2], s[3]} : s;
  if (!onednn::is_read_again(weight, seen, steps)) {
    onednn::note_read(weight, seen, steps);
    return {};
  }
  const Tensor result = transformed(convolution, weight);
  derived.put(key, version, Ref<RefCounted>(new KeptWeight(result)));
  return result;
}

// `bias`: f32 and contiguous, or undefined.
void convolve(const Convolution& convolution, const Tensor& x, const Tensor& weight,
              const Tensor& bias, const Tensor& y) {
  const auto bias_from = [&](std::int64_t channel) {
    return bias.defined() ? bias.data<float>() + channel : nullptr;
  };
  if (const Tensor kept = kept_weight(convolution, weight); kept.defined()) {
    return winograd::convolve(convolution, x, kept.data<float>(), bias_from(0), y);
  }
  if (convolution.has_large_weight(num_threads())) {
    return winograd::convolve_by_outputs(convolution, x, rounded(weight), bias_from(0), y);
  }
  const std::size_t out_axis = convolution.turned ? 1 : 0;
  const std::int64_t step = convolution.outputs_at_a_time();
  for (std::int64_t begin = 0; begin < convolution.out; begin += step) {
    Convolution part = convolution;
    part.out = std::min(step, convolution.out - begin);
    const Tensor numbers = transformed(part, channels(weight, out_axis, begin, part.out));
    winograd::convolve(part, x, numbers.data<float>(), bias_from(begin),
                       channels(y, 1, begin, part.out));
  }
}

}  // namespace

Support supports_winograd(const KernelArgs& args) {
  return supports_winograd_of(args, forward_problem(args));
}

Support supports_winograd_grad_input(const KernelArgs& args) {
  return supports_winograd_of(args, gradient_problem(args, Pass::kGradInput));
}

Support supports_winograd_grad_weight(const KernelArgs& args) {
  return supports_winograd_of(args, gradient_problem(args, Pass::kGradWeight));
}

void run_winograd(const KernelArgs& args) {
  const Problem p = forward_problem(args);
  const Convolution convolution{tiling_of(p), p.x[1], p.y[1], /*turned=*/false};
  const Tensor x = dense(args.input(0), Format::kChannelsLast);
  const Tensor bias = p.has_bias ? dense_f32(args.input(2)) : Tensor();
  convolve(convolution, x, args.input(1), bias, args.output());
}

void run_winograd_grad_input(const KernelArgs& args) {
  const Problem p = gradient_problem(args, Pass::kGradInput);
  const Convolution convolution{turned_tiling_of(p), p.y[1], p.x[1], /*turned=*/true};
  const Tensor grad = dense(args.input(0), Format::kChannelsLast);
  convolve(convolution, grad, args.input(1), Tensor(), args.output());
}

void run_winograd_grad_weight(const KernelArgs& args) {
  const Problem p = gradient_problem(args, Pass::kGradWeight);
  const Tensor grad = dense(args.input(0), Format::kChannelsLast);
  const Tensor x = dense(args.input(1), Format::kChannelsLast);
  const Tensor& out = args.output();
  const bool direct = out.dtype() == DType::kF32 && weight_steps(out).has_value();
  const Tensor result = direct ? out : scratch(out.shape(), DType::kF32);
  winograd::gradient_by_weight(WeightGradient{tiling_of(p), p.x[1], p.y[1]}, grad, x, result);
  if (!direct) copy_elements(result, out);
}

}  // namespace mezzo::kernels::conv
