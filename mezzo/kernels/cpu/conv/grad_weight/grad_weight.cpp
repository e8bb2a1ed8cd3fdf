#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "mezzo/kernels/cpu/conv/grad_weight/grad_weight.cpp"
#include "mezzo/kernels/cpu/conv/grad_weight/grad_weight.h"

#include <hwy/foreach_target.h>

#include "mezzo/core/scratch.h"
#include "mezzo/kernels/cpu/conv/grad_weight/grad_weight_columns.h"
#include "mezzo/kernels/cpu/conv/grad_weight/grad_weight_worker-inl.h"
#include "mezzo/kernels/cpu/gemm/tiles.h"
#include "mezzo/kernels/cpu/loops/layout.h"

HWY_BEFORE_NAMESPACE();
namespace mezzo::HWY_NAMESPACE {
namespace {

using kernels::NormArrays;
using kernels::NormLines;
using kernels::TileRegisters;
using kernels::WeightSteps;

// Computes the sums of one part.
template <class T, class ReadX>
void run_part(const Plan& plan, const KernelArgs& args, const ReadX& read_x, const PlanPart& part,
              float* sums) {
  const auto count = static_cast<std::int64_t>(plan.chunks.size());
  const std::int64_t begin = count * part.chunks / plan.chunk_parts;
  const std::int64_t end = count * (part.chunks + 1) / plan.chunk_parts;
  GradWeightWorker<T, ReadX> worker(plan, args.input(0).data<T>(), args.input(1).data<T>(), read_x,
                                    part, sums);
  const auto add_chunks = [&] {
    for (std::int64_t i = begin; i < end; ++i) {
      const Chunk* const chunk = &plan.chunks[static_cast<std::size_t>(i)];
      worker.add(*chunk, i == begin, i + 1 < end ? chunk + 1 : nullptr);
    }
  };
  if (plan.problem.products == Products::kTiles) {
    const TileRegisters registers;
    add_chunks();
  } else {
    add_chunks();
  }
}

template <class ReadX>
void run_parts(const Plan& plan, const KernelArgs& args, const ReadX& read_x, float* sums) {
  const auto run_one = [&](const PlanPart& part) {
    kernels::visit_vector_dtype(args.input(0).dtype(),
                                [&]<class T>() { run_part<T>(plan, args, read_x, part, sums); });
  };
  const std::int64_t parts = plan.chunk_parts * plan.in_parts * plan.out_parts;
  parallel_for(parts, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) run_one(PlanPart(plan, i));
  });
}

}  // namespace

// `norm`: the pending normalisation of x, done as x is read; or null.
void grad_weight(const Plan& plan, const KernelArgs& args, const PendingNorm* norm, float* sums) {
  if (norm == nullptr) return run_parts(plan, args, AsStored(), sums);
  static_assert(NormArrays::kBlock % kPanel == 0);
  const NormArrays arrays(*norm);
  const NormLines lines = arrays.lines();
  const void* const x = args.input(1).raw_data();
  if (!norm->residual.defined()) {
    return run_parts(plan, args, Normalized<false>{lines, x, nullptr}, sums);
  }
  const Tensor residual = kernels::dense(norm->residual, Format::kChannelsLast);
  run_parts(plan, args, Normalized<true>{lines, x, residual.raw_data()}, sums);
}

namespace {

// Adds up 16 sums of every part of the chunks, in the parts' order; parts are `part_sums` apart.
void add_parts(const Plan& plan, const float* sums, std::int64_t part_sums, float* added) {
  for (std::int64_t v = 0; v < kPanel; v += kMaxLanes) {
    auto sum = load(sums + v);
    for (std::int64_t part = 1; part < plan.chunk_parts; ++part) {
      sum = hn::Add(sum, load(sums + part * part_sums + v));
    }
    store(sum, added + v);
  }
}

// Gathers the weights of one output channel. `sums` are its own, those of the first part of the
// chunks.
void gather_channel(const Plan& plan, const float* sums, const WeightSteps& steps, float* out) {
  const auto taps = static_cast<std::int64_t>(plan.taps.size());
  const std::int64_t part_sums = plan.out_panels * plan.vectors() * kPanel * kPanel;
  for (std::int64_t i = 0; i < plan.problem.in_channels; i += kPanel) {
    const std::int64_t count = std::min(plan.problem.in_channels - i, kPanel);
    for (std::int64_t tap = 0; tap < taps; ++tap, sums += kPanel * kPanel) {
      float* const to = out + i * steps.channel + tap * steps.tap;
      if (steps.channel == 1 && count == kPanel) {
        add_parts(plan, sums, part_sums, to);
        continue;
      }
      float added[kPanel];
      add_parts(plan, sums, part_sums, added);
      for (std::int64_t j = 0; j < count; ++j) to[j * steps.channel] = added[j];
    }
  }
}

}  // namespace

// Adds up the parts' sums and writes them in the layout of the result.
void gather(const Plan& plan, const float* sums, const WeightSteps& steps, float* out) {
  const auto taps = static_cast<std::int64_t>(plan.taps.size());
  parallel_for(plan.problem.out_channels, 4, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t o = begin; o < end; ++o) {
      const std::int64_t panel = o / kPanel * plan.vectors() * kPanel * kPanel;
      gather_channel(plan, sums + panel + o % kPanel * kPanel, steps,
                     out + o * plan.problem.in_channels * taps);
    }
  });
}

// gather() where the sums lie in the result's memory: a panel's sums occupy the place of its 16
// output channels.
void gather_in_place(const Plan& plan, const WeightSteps& steps, float* numbers) {
  const std::int64_t channel = plan.vectors() * kPanel;
  parallel_for(plan.out_panels, 1, [&](std::int64_t begin, std::int64_t end) {
    const Tensor room = empty({kPanel * channel});
    float* const sums = room.mutable_data<float>();
    for (std::int64_t panel = begin; panel < end; ++panel) {
      float* const out = numbers + panel * kPanel * channel;
      std::copy_n(out, kPanel * channel, sums);
      for (std::int64_t o = 0; o < kPanel; ++o) {
        gather_channel(plan, sums + o * kPanel, steps, out + o * channel);
      }
    }
  });
}

}  // namespace mezzo::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace mezzo::kernels {
namespace {

using grad_weight::Plan;
using grad_weight::Problem;
using grad_weight::problem_of;
using grad_weight::Products;
using grad_weight::products_for;

HWY_EXPORT(grad_weight);
HWY_EXPORT(gather);
HWY_EXPORT(gather_in_place);

}  // namespace

void run_grad_weight(const KernelArgs& args) {
  run_grad_weight(args, products_for(args.input(1).dtype()));
}

namespace {

// The gradient [o, c, kh, kw] in f32, written to `out` if that is a dense block of either format.
// Images are dense and channels-last. `norm`: the pending normalisation of x, done as x is read; or
// null.
Tensor f32_grad_weight(Problem problem, const Tensor& grad, const Tensor& x,
                       const PendingNorm* norm, const Tensor& out) {
  const std::array<const Tensor*, 2> inputs{&grad, &x};
  const Attrs none;
  const KernelArgs images{inputs, {}, none};
  const bool direct = out.dtype() == DType::kF32 && weight_steps(out).has_value();
  const Tensor result =
      direct
          ? out
          : scratch({problem.out_channels, problem.in_channels, problem.kernel.h, problem.kernel.w},
                    DType::kF32);
  const WeightSteps steps = *weight_steps(result);
  problem.channels_last = steps.channel == 1;
  const Plan plan(problem, num_threads());
  if (plan.sums_fit_weight()) {
    HWY_DYNAMIC_DISPATCH(grad_weight)(plan, images, norm, result.mutable_data<float>());
    if (!plan.sums_are_weight()) {
      HWY_DYNAMIC_DISPATCH(gather_in_place)(plan, steps, result.mutable_data<float>());
    }
    return result;
  }
  const Tensor sums = scratch({plan.sum_count()}, DType::kF32);
  HWY_DYNAMIC_DISPATCH(grad_weight)(plan, images, norm, sums.mutable_data<float>());
  HWY_DYNAMIC_DISPATCH(gather)
  (plan, sums.data<float>(), steps, result.mutable_data<float>());
  return result;
}

// Computes the gradient for images of few channels, with joined columns.
void run_direct_narrow(const Problem& problem, const KernelArgs& args) {
  const Tensor grad = dense(args.input(0), Format::kChannelsLast);
  const Problem joined = with_joined_columns(problem);
  const Tensor x = dense(args.input(1), Format::kChannelsLast);
  const Tensor place =
      scratch({joined.out_channels, joined.in_channels, joined.kernel.h, 1}, DType::kF32);
  f32_grad_weight(joined, grad, x, nullptr, place);
  copy_elements(split_columns(place, problem), args.output());
}

}  // namespace

void run_grad_weight(const KernelArgs& args, Products products) {
  const Problem problem = problem_of(args, products);
  if (joins_columns(problem)) return run_direct_narrow(problem, args);
  const Tensor grad = dense(args.input(0), Format::kChannelsLast);
  const PendingNorm* const norm = pending_norm_of(args.input(1));
  const Tensor x = dense(norm != nullptr ? norm->x : args.input(1), Format::kChannelsLast);
  const Tensor& out = args.output();
  const Tensor result = f32_grad_weight(problem, grad, x, norm, out);
  if (result.impl() != out.impl()) copy_elements(result, out);
}

}  // namespace mezzo::kernels
#endif
