#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "mezzo/kernels/cpu/conv/planar/conv2d_planar.cpp"
#include "mezzo/kernels/cpu/conv/planar/conv2d_planar.h"

#include <algorithm>
#include <vector>

#include <hwy/foreach_target.h>

#include "mezzo/core/math.h"
#include "mezzo/kernels/cpu/conv/planar/conv2d_planar-inl.h"
#include "mezzo/kernels/cpu/conv/planar/conv2d_planar_call.h"
#include "mezzo/kernels/cpu/conv/planar/planar_problem.h"
#include "mezzo/kernels/cpu/conv/planar/planar_rows-inl.h"
#include "mezzo/kernels/cpu/conv/problem.h"
#include "mezzo/kernels/cpu/loops/layout.h"
#include "mezzo/kernels/cpu/simd/interleave-inl.h"

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

// Copies the factors of a block of output channels, which are adjacent: channel by channel of x,
// row by row, tap by tap.
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

// Computes chunks of y on one thread.
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
    // The last row ends at its last pixel: the sums would read beyond the copies.
    const std::int64_t pixels = (chunk.rows() - 1) * plan_.pitch() + problem_.y.w;
    const std::int64_t vectors = ceil_div(pixels, lanes());
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

  // Rounds the sums of a chunk's image row by row, and drops the pixels between rows.
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
  Tensor lines_;  // [remainder of rows][remainder of columns][channel]
  std::int64_t sums_step_;
  Tensor sums_;  // a line per output channel
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

HWY_EXPORT(convolve_planar);

}  // namespace

void run_planar(const KernelArgs& args) {
  const Problem p = forward_problem(args);
  const Tensor weight = dense_f32(args.input(1));
  const Tensor bias = p.has_bias ? dense_f32(args.input(2)) : Tensor();
  const Strides& s = weight.strides();
  HWY_DYNAMIC_DISPATCH(convolve_planar)
  ({.problem = planar::problem_of(p),
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
  ({.problem = planar::turned_problem_of(p),
    .x = dense(args.input(0), Format::kChannelsLast),
    .y = args.output(),
    .weight = {weight.data<float>() + last_tap, s[1], s[0], -s[2], -s[3]}});
}

}  // namespace mezzo::kernels::conv
#endif
