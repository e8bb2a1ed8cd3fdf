#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "mezzo/kernels/cpu/grad_weight_planar.cpp"
#include "mezzo/kernels/cpu/grad_weight_planar.h"

#include <algorithm>
#include <vector>

#include <hwy/foreach_target.h>

#include "mezzo/core/cpu.h"
#include "mezzo/core/scratch.h"
#include "mezzo/kernels/cpu/grad_weight.h"
#include "mezzo/kernels/cpu/grad_weight_planar-inl.h"
#include "mezzo/kernels/cpu/grad_weight_planar_plan.h"
#include "mezzo/kernels/cpu/layout.h"
#include "mezzo/kernels/cpu/planar_rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace mezzo::HWY_NAMESPACE {
namespace {

using kernels::WeightSteps;
using kernels::planar::Chunk;
using kernels::planar::GradWeightPlan;
using kernels::planar::Problem;
using kernels::planar::TapAxis;

struct Block {
  std::int64_t first = 0, end = 0;

  std::int64_t size() const { return end - first; }
};

// One thread's copies of images, and what it does with them.
template <class T>
class PlanarWorker {
 public:
  PlanarWorker(const GradWeightPlan& plan, const T* grad, const T* x)
      : plan_(plan),
        problem_(plan.problem),
        grad_(grad),
        rows_(plan, plan.in_block, x),
        grads_(empty({(plan.out_block + 1) * grad_channel()}, DType::kF32)),
        planes_(empty({plan.in_block * plan.x_channel}, DType::kF32)),
        lines_(zeros({rows_.lines()}, DType::kF32)) {
    list_taps();
  }

  // Adds the products of a chunk to `sums`, [output channel][input channel][tap], or begins them.
  void add(const Chunk& chunk, bool first, float* sums) {
    const bool keeps_grads = plan_.out_block >= problem_.out_channels;
    for (Block in; in.first < problem_.in_channels; in.first = in.end) {
      in.end = std::min(in.first + plan_.in_block, problem_.in_channels);
      copy_x(chunk, in);
      for (Block out; out.first < problem_.out_channels; out.first = out.end) {
        out.end = std::min(out.first + plan_.out_block, problem_.out_channels);
        if (in.first == 0 || !keeps_grads) copy_grads(chunk, out);
        multiply(chunk, in, out, first, sums);
      }
    }
  }

 private:
  float* grads() const { return grads_.template mutable_data<float>(); }
  float* planes() const { return planes_.template mutable_data<float>(); }
  float* lines() const { return lines_.template mutable_data<float>(); }

  std::int64_t grad_channel() const { return plan_.chunk_images * plan_.grad_line; }
  std::int64_t grad_row() const { return problem_.y.w * problem_.out_channels; }

  // Calls body(first, channels, copy) for the blocks of output channels whose sums are in registers
  // together.
  template <class Body>
  void for_blocks(const Block& out, const Body& body) const {
    float* copy = grads();
    for (std::int64_t o = out.first; o < out.end;) {
      const int channels = channels_at_once(out.end - o);
      body(o, channels, copy);
      copy += channels * grad_channel();
      o += channels;
    }
  }

  void copy_grads(const Chunk& chunk, const Block& out) {
    const std::int64_t count = vectors(chunk);
    grad_lines_.clear();
    for_blocks(out, [&](std::int64_t first, int channels, float* copy) {
      for (std::int64_t o = first; o < std::min(first + channels, out.end); ++o) {
        grad_lines_.push_back({copy + (o - first) * lanes(), channels * lanes()});
      }
      if (first + channels > out.end) {
        clear_last(channels, copy, copy + chunk.slots() * count * channels * lanes());
      }
    });
    const T* const limit = grad_ + problem_.images * problem_.y.h * grad_row();
    for (std::int64_t image = 0; image < chunk.slots(); ++image) {
      const std::int64_t row = (chunk.first_slot + image) * problem_.y.h + chunk.first_row;
      separate<T>({grad_ + row * grad_row(), problem_.out_channels, chunk.rows() * problem_.y.w,
                   out.first, out.end, limit},
                  grad_lines_.data(), image * count);
    }
  }

  // Zeros the lines of the channel that a block has beyond the last one. Its sums are never read,
  // but subnormal numbers in them would take time.
  static void clear_last(int channels, float* begin, float* end) {
    for (float* v = begin + (channels - 1) * lanes(); v < end; v += channels * lanes()) {
      store(hn::Zero(F32()), v);
    }
  }

  std::int64_t vectors(const Chunk& chunk) const {
    return (chunk.rows() * problem_.y.w + lanes() - 1) / lanes();
  }

  void copy_x(const Chunk& chunk, const Block& in) {
    const auto columns = static_cast<std::int64_t>(plan_.cols.taps.size());
    for (std::int64_t image = chunk.first_slot; image < chunk.end_slot; ++image) {
      float* to = planes() + (image - chunk.first_slot) * plan_.x_plane;
      for (const std::int64_t remainder : plan_.rows.remainders) {
        rows_.copy(chunk, image, remainder, in.first, in.end, lines());
        copy_lines(chunk.rows() + plan_.rows.halo, in, to);
        to += columns * plan_.x_planes;
      }
    }
  }

  // Copies lines to the planes that read them, one for each channel and column of taps. Whole
  // vectors are written: the row after each, and the zeros at the end, are written later.
  void copy_lines(std::int64_t rows, const Block& in, float* to) const {
    const std::int64_t width = problem_.y.w;
    const float* const from = lines();
    for (std::int64_t c = 0; c < in.size(); ++c) {
      float* plane = to + c * plan_.x_channel;
      for (const TapAxis::Tap& tap : plan_.cols.taps) {
        const float* line = from + rows_.line_at(tap.remainder, c) + tap.shift;
        for (std::int64_t r = 0; r < rows; ++r, line += plan_.pitch()) {
          float* row = plane + r * width;
          for (std::int64_t i = 0; i < width; i += lanes()) store(load(line + i), row + i);
        }
        // Nothing of an earlier chunk may meet the zeros that end a line.
        store(hn::Zero(F32()), plane + rows * width);
        plane += plan_.x_planes;
      }
    }
  }

  void multiply(const Chunk& chunk, const Block& in, const Block& out, bool first,
                float* sums) const {
    const LineRun run{
        .images = chunk.slots(),
        .vectors = vectors(chunk),
        .x_image = plan_.x_plane,
        .sums_channel = problem_.in_channels * plan_.taps() * lanes(),
        .first = first,
    };
    sums += in.first * plan_.taps() * lanes();
    for_blocks(out, [&](std::int64_t o, int channels, const float* copy) {
      multiply_channels(channels, run, copy, taps_.data(), in.size() * plan_.taps(),
                        sums + o * run.sums_channel);
    });
  }

  // Column by column: the rows of one read the same plane, which then stays in the cache.
  void list_taps() {
    for (std::int64_t c = 0; c < plan_.in_block; ++c) {
      for (std::int64_t j = 0; j < problem_.kernel.w; ++j) {
        for (std::int64_t i = 0; i < problem_.kernel.h; ++i) {
          taps_.push_back(planes() + c * plan_.x_channel + plan_.x_offset(i, j));
        }
      }
    }
  }

  const GradWeightPlan& plan_;
  const Problem& problem_;
  const T* grad_;
  PlanarRows<T> rows_;
  Tensor grads_;
  Tensor planes_;
  Tensor lines_;
  std::vector<ChannelLine> grad_lines_;
  std::vector<const float*> taps_;
};

template <class T>
void add_parts(const GradWeightPlan& plan, const KernelArgs& args, const Block& parts,
               float* sums) {
  PlanarWorker<T> worker(plan, args.input(0).data<T>(), args.input(1).data<T>());
  for (std::int64_t part = parts.first; part < parts.end; ++part) {
    const std::int64_t first = plan.chunks * part / plan.parts;
    const std::int64_t end = plan.chunks * (part + 1) / plan.parts;
    for (std::int64_t i = first; i < end; ++i) {
      worker.add(plan.chunk(i), i == first, sums + part * plan.sums() * lanes());
    }
  }
}

// Adds up the parts' vectors of a weight, and the lanes of their sum.
HWY_INLINE float total_of(const GradWeightPlan& plan, const float* sums) {
  auto total = load(sums);
  for (std::int64_t part = 1; part < plan.parts; ++part) {
    total = hn::Add(total, load(sums + part * plan.sums() * lanes()));
  }
  return hn::GetLane(hn::SumOfLanes(F32(), total));
}

// The weights of an output channel: sums are column by column, taps of `out` are row by row.
void total_channel(const GradWeightPlan& plan, const float* sums, const WeightSteps& steps,
                   float* out) {
  const auto [rows, cols] = plan.problem.kernel;
  for (std::int64_t c = 0; c < plan.problem.in_channels; ++c, out += steps.channel) {
    for (std::int64_t j = 0; j < cols; ++j) {
      for (std::int64_t i = 0; i < rows; ++i, sums += lanes()) {
        out[(i * cols + j) * steps.tap] = total_of(plan, sums);
      }
    }
  }
}

}  // namespace

// `out` [o, c, kh, kw]: f32, dense.
void grad_weight_planar(const Problem& problem, const KernelArgs& args, const Tensor& out) {
  const GradWeightPlan plan(problem, lanes());
  const Tensor all_sums = scratch({plan.parts * plan.sums() * lanes()}, DType::kF32);
  float* sums = all_sums.mutable_data<float>();
  parallel_for(plan.parts, 1, [&](std::int64_t begin, std::int64_t end) {
    kernels::visit_vector_dtype(args.input(0).dtype(), [&]<class T>() {
      add_parts<T>(plan, args, {begin, end}, sums);
    });
  });
  const std::int64_t weights = problem.in_channels * plan.taps();
  const std::int64_t grain = kElementGrain / (weights * plan.parts * lanes());
  const WeightSteps steps = *kernels::weight_steps(out);
  float* const numbers = out.mutable_data<float>();
  parallel_for(problem.out_channels, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t o = begin; o < end; ++o) {
      total_channel(plan, sums + o * weights * lanes(), steps, numbers + o * weights);
    }
  });
}

}  // namespace mezzo::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace mezzo::kernels {
namespace {

using grad_weight::Problem;
using grad_weight::problem_of;
using grad_weight::Products;

HWY_EXPORT(grad_weight_planar);

// Where oneDNN's kernels are slower, as far as measured (docs/benchmarks/convolutions.md): their
// vectors of output channels must be mostly empty for that, and the sums long beside the copies
// made here. Its bf16 kernels are always slower without AMX, and f16 must be widened for them
// first.
bool is_worth_copying(const Problem& p, DType dtype) {
  if (dtype == DType::kBf16) return std::min(p.in_channels, p.out_channels) < 8;
  if (p.attrs.stride != Size2d(1)) return false;
  if (dtype == DType::kF16 && p.in_channels == 1) return true;
  const std::int64_t taps = p.kernel.h * p.kernel.w;
  if (taps == 1) return false;
  return p.out_channels < (taps >= 25 ? 8 : 5);
}

}  // namespace

Support supports_grad_weight_planar(const KernelArgs& args) {
  const DType dtype = args.input(1).dtype();
  if (!is_vector_dtype(dtype)) return Support::no("only f32, bf16 and f16 are vectorised");
  if (!has_vectors()) return Support::no("needs AVX2 or NEON");
  if (args.attrs<Conv2dGradAttrs>().conv.groups != 1) return Support::no("has groups");
  if (args.input(0).numel() == 0 || args.input(1).numel() == 0) {
    return Support::no("there is nothing to add up");
  }
  if (!is_worth_copying(problem_of(args, Products::kF32), dtype))
    return Support::no("oneDNN is faster");
  return Support::yes();
}

void run_grad_weight_planar(const KernelArgs& args) {
  const Tensor grad = dense(args.input(0), Format::kChannelsLast);
  const Tensor x = dense(args.input(1), Format::kChannelsLast);
  const std::array<const Tensor*, 2> inputs{&grad, &x};
  const KernelArgs dense_args{inputs, args.outputs, args.attributes};
  const Tensor& out = args.output();
  const bool direct = out.dtype() == DType::kF32 && weight_steps(out).has_value();
  const Tensor result = direct ? out : scratch(out.shape(), DType::kF32);
  HWY_DYNAMIC_DISPATCH(grad_weight_planar)
  (problem_of(args, Products::kF32), dense_args, result);
  if (!direct) copy_elements(result, out);
}

}  // namespace mezzo::kernels
#endif
