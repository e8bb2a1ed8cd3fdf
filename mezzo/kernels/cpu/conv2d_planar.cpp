#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "mezzo/kernels/cpu/conv2d_planar.cpp"
#include "mezzo/kernels/cpu/conv2d_planar.h"

#include <algorithm>
#include <vector>

#include <hwy/foreach_target.h>

#include "mezzo/core/cpu.h"
#include "mezzo/kernels/cpu/conv2d_planar-inl.h"
#include "mezzo/kernels/cpu/conv2d_planar_call.h"
#include "mezzo/kernels/cpu/conv2d_problem.h"
#include "mezzo/kernels/cpu/conv2d_row_sums.h"
#include "mezzo/kernels/cpu/interleave-inl.h"
#include "mezzo/kernels/cpu/layout.h"
#include "mezzo/kernels/cpu/planar_rows-inl.h"
#include "mezzo/kernels/cpu/tiles.h"

HWY_BEFORE_NAMESPACE();
namespace mezzo::HWY_NAMESPACE {
namespace {

using kernels::planar::Call;
using kernels::planar::Chunk;
using kernels::planar::kMostChannels;
using kernels::planar::kMostPixels;
using kernels::planar::Plan;
using kernels::planar::Problem;
using kernels::planar::TapAxis;
using kernels::planar::Weight;

// Calls body(first channel, channels) for the blocks of output channels.
template <class Body>
void for_out_blocks(std::int64_t out_channels, const Body& body) {
  for (std::int64_t o = 0; o < out_channels;) {
    const int channels = sums_at_once(out_channels - o);
    body(o, channels);
    o += channels;
  }
}

// The factors of a block of output channels, one after the other: channel by channel of x, tap by
// tap, row by row.
void copy_factors(const Problem& p, const Weight& weight, std::int64_t first, int channels,
                  float* to) {
  for (std::int64_t c = 0; c < p.in_channels; ++c) {
    for (std::int64_t i = 0; i < p.kernel.h; ++i) {
      for (std::int64_t j = 0; j < p.kernel.w; ++j, to += channels) {
        const float* from =
            weight.first + first * weight.out + c * weight.in + i * weight.row + j * weight.column;
        for (std::int64_t m = 0; m < channels; ++m) to[m] = from[m * weight.out];
      }
    }
  }
}

Tensor factors_of(const Plan& plan, const Weight& weight) {
  const Problem& p = plan.problem;
  const std::int64_t per_channel = p.in_channels * plan.taps();
  const Tensor factors = empty({p.out_channels * per_channel});
  for_out_blocks(p.out_channels, [&](std::int64_t first, int channels) {
    copy_factors(p, weight, first, channels, factors.mutable_data<float>() + first * per_channel);
  });
  return factors;
}

// What one thread needs to make chunks of y.
template <class T>
class Worker {
 public:
  Worker(const Plan& plan, const Call& call, const float* factors)
      : plan_(plan),
        problem_(plan.problem),
        factors_(factors),
        in_block_(std::min(problem_.in_channels, kMostChannels)),
        rows_(plan, in_block_, call.x.template data<T>()),
        y_(call.y.template mutable_data<T>()),
        lines_(zeros({static_cast<std::int64_t>(plan.rows.remainders.size()) * rows_.lines()})),
        sums_step_(plan.line()),
        sums_(empty({problem_.out_channels * sums_step_ + kInterleavedPixels})),
        interleaver_(problem_.out_channels) {
    if (call.bias != nullptr) std::copy_n(call.bias, problem_.out_channels, bias_);
    list_taps();
  }

  void make(const Chunk& chunk) {
    for (std::int64_t image = chunk.first_slot; image < chunk.end_slot; ++image) {
      for (std::int64_t c = 0; c < problem_.in_channels; c += in_block_) {
        const std::int64_t end = std::min(c + in_block_, problem_.in_channels);
        copy_rows(chunk, image, c, end);
        add_channels(chunk, c, end);
      }
      write(chunk, image);
    }
  }

 private:
  float* lines() const { return lines_.template mutable_data<float>(); }
  float* sums() const { return sums_.template mutable_data<float>(); }

  void list_taps() {
    for (std::int64_t c = 0; c < in_block_; ++c) {
      for (const TapAxis::Tap& row : plan_.rows.taps) {
        for (const TapAxis::Tap& column : plan_.cols.taps) {
          taps_.push_back(lines() + row.remainder * rows_.lines() +
                          rows_.line_at(column.remainder, c) + row.shift * plan_.pitch() +
                          column.shift);
        }
      }
    }
  }

  void copy_rows(const Chunk& chunk, std::int64_t image, std::int64_t first, std::int64_t end) {
    float* to = lines();
    for (const std::int64_t remainder : plan_.rows.remainders) {
      rows_.copy(chunk, image, remainder, first, end, to);
      to += rows_.lines();
    }
  }

  // Adds the products of the input channels [first, end) to the sums of a chunk's image.
  void add_channels(const Chunk& chunk, std::int64_t first, std::int64_t end) {
    const std::int64_t per_channel = problem_.in_channels * plan_.taps();
    // What lies behind the last pixel would be read beyond the copies.
    const std::int64_t pixels = (chunk.rows() - 1) * plan_.pitch() + problem_.y.w;
    const std::int64_t vectors = (pixels + lanes() - 1) / lanes();
    for_out_blocks(problem_.out_channels, [&](std::int64_t o, int channels) {
      const TapRun run{
          .taps = taps_.data(),
          .count = (end - first) * plan_.taps(),
          .factors = factors_ + o * per_channel + first * plan_.taps() * channels,
          .first = first == 0 ? bias_ + o : nullptr,
          .sums_channel = sums_step_,
      };
      add_taps_to_block(channels, run, vectors, sums() + o * sums_step_);
    });
  }

  // Rounds the sums of a chunk's image, row by row, without what lies between rows.
  void write(const Chunk& chunk, std::int64_t image) {
    const std::int64_t width = problem_.y.w;
    T* to = y_ + (image * problem_.y.h + chunk.first_row) * width * problem_.out_channels;
    const float* from = sums();
    for (std::int64_t r = 0; r < chunk.rows(); ++r, from += plan_.pitch()) {
      interleaver_.write(from, sums_step_, width, to);
      to += width * problem_.out_channels;
    }
  }

  const Plan& plan_;
  const Problem& problem_;
  const float* factors_;
  std::int64_t in_block_;
  PlanarRows<T> rows_;
  T* y_;
  Tensor lines_;  // of a remainder of rows, of columns, of a channel
  std::int64_t sums_step_;
  Tensor sums_;  // of an output channel, as many as a line has
  Interleaver<T> interleaver_;
  std::vector<const float*> taps_;
  float bias_[kMostChannels] = {};
};

void convolve_planar(const Call& call) {
  const Plan plan(call.problem, lanes(), kMostPixels);
  const Tensor factors = factors_of(plan, call.weight);
  parallel_for(plan.chunks, 1, [&](std::int64_t begin, std::int64_t end) {
    kernels::visit_vector_dtype(call.x.dtype(), [&]<class T>() {
      Worker<T> worker(plan, call, factors.data<float>());
      for (std::int64_t i = begin; i < end; ++i) worker.make(plan.chunk(i));
    });
  });
}

}  // namespace
}  // namespace mezzo::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace mezzo::kernels::conv {
namespace {

using planar::kMostChannels;

HWY_EXPORT(convolve_planar);

// What a vector of pixels takes, in vector instructions; constants as measured
// (docs/benchmarks/convolutions.md). Rows are computed with what lies between them.
std::int64_t instructions(const planar::Problem& p) {
  constexpr std::int64_t kCopied = 30;  // of every channel, to a line
  constexpr std::int64_t kWritten = 10;
  const std::int64_t taps = p.kernel.h * p.kernel.w;
  const std::int64_t between = p.attrs.dilation.w * (p.kernel.w - 1) / p.attrs.stride.w;
  const std::int64_t sums = taps * p.out_channels * (p.y.w + between) / p.y.w;
  const std::int64_t copies = kCopied * p.attrs.stride.h * p.attrs.stride.w;
  return p.in_channels * (sums + copies) + kWritten * p.out_channels;
}

// The same of oneDNN's kernels, whose vectors hold the output channels of one pixel.
std::int64_t onednn_instructions(const planar::Problem& p, DType dtype) {
  constexpr std::int64_t kBesides = 10;
  const std::int64_t lanes = vector_lanes();
  std::int64_t products = p.in_channels;
  if (dtype == DType::kBf16 && has_tiles()) products = (p.in_channels + 31) / 32 * 2;
  if (dtype == DType::kBf16 && has_fast_bf16_dot()) products = (p.in_channels + 1) / 2;
  return lanes * (p.kernel.h * p.kernel.w * products + kBesides);
}

bool is_worth_copying(const planar::Problem& p, DType dtype) {
  // Of shorter rows, too much is computed besides.
  constexpr std::int64_t kShortRow = 16;
  if (p.y.w < kShortRow) return false;
  return 10 * instructions(p) < 9 * onednn_instructions(p, dtype);
}

planar::Problem planar_problem(const Problem& p) {
  return {.images = p.x[0],
          .in_channels = p.x[1],
          .out_channels = p.y[1],
          .x = {p.x[2], p.x[3]},
          .y = {p.y[2], p.y[3]},
          .kernel = {p.weight[2], p.weight[3]},
          .attrs = p.attrs};
}

// The gradient of y is the image, beside as much padding as makes its first window end at the first
// pixel of x.
planar::Problem turned_problem(const Problem& p) {
  planar::Problem turned = planar_problem(p);
  std::swap(turned.in_channels, turned.out_channels);
  std::swap(turned.x, turned.y);
  const Sides& padding = p.attrs.padding;
  const Size2d span = p.attrs.window(turned.kernel).span();
  turned.attrs.padding = {.top = span.h - 1 - padding.top, .left = span.w - 1 - padding.left};
  return turned;
}

// Its count is of one pixel, and none of it waits for memory.
bool are_row_sums_faster(const Problem& p, const planar::Problem& turned) {
  const std::int64_t lanes = vector_lanes();
  return 8 * lanes * row_sums_instructions(p) < 5 * instructions(turned);
}

Support supports_operands(const KernelArgs& args) {
  const DType dtype = args.input(0).dtype();
  if (!is_vector_dtype(dtype) || args.output().dtype() != dtype) {
    return Support::no("only f32, bf16 and f16 are vectorised");
  }
  if (!has_vectors()) return Support::no("needs AVX2 or NEON");
  if (args.output().size(1) > kMostChannels) return Support::no("only for 8 channels and fewer");
  if (args.input(0).numel() == 0 || args.output().numel() == 0) {
    return Support::no("a tensor has no elements");
  }
  return Support::yes();
}

Support supports_problem(const planar::Problem& p, DType dtype) {
  if (p.attrs.groups != 1) return Support::no("has groups");
  return is_worth_copying(p, dtype) ? Support::yes() : Support::no("oneDNN is faster");
}

}  // namespace

Support supports_planar(const KernelArgs& args) {
  const Support operands = supports_operands(args);
  if (!operands) return operands;
  return supports_problem(planar_problem(forward_problem(args)), args.input(0).dtype());
}

Support supports_planar_grad_input(const KernelArgs& args) {
  const Support operands = supports_operands(args);
  if (!operands) return operands;
  const Problem p = gradient_problem(args, Pass::kGradInput);
  if (p.attrs.stride != Size2d(1)) return Support::no("only for gradients at stride 1");
  const planar::Problem turned = turned_problem(p);
  if (supports_row_sums(args) && are_row_sums_faster(p, turned)) {
    return Support::no("cpu_row_sums is faster");
  }
  return supports_problem(turned, args.input(0).dtype());
}

void run_planar(const KernelArgs& args) {
  const Problem p = forward_problem(args);
  const Tensor weight = dense_f32(args.input(1));
  const Tensor bias = p.has_bias ? dense_f32(args.input(2)) : Tensor();
  const Strides& s = weight.strides();
  HWY_DYNAMIC_DISPATCH(convolve_planar)
  ({.problem = planar_problem(p),
    .x = dense(args.input(0), Format::kChannelsLast),
    .y = args.output(),
    .weight = {weight.data<float>(), s[0], s[1], s[2], s[3]},
    .bias = bias.defined() ? bias.data<float>() : nullptr});
}

void run_planar_grad_input(const KernelArgs& args) {
  const Problem p = gradient_problem(args, Pass::kGradInput);
  const Tensor weight = dense_f32(args.input(1));
  const Strides& s = weight.strides();
  const std::int64_t last_tap = (p.weight[2] - 1) * s[2] + (p.weight[3] - 1) * s[3];
  HWY_DYNAMIC_DISPATCH(convolve_planar)
  ({.problem = turned_problem(p),
    .x = dense(args.input(0), Format::kChannelsLast),
    .y = args.output(),
    .weight = {weight.data<float>() + last_tap, s[1], s[0], -s[2], -s[3]}});
}

}  // namespace mezzo::kernels::conv
#endif
