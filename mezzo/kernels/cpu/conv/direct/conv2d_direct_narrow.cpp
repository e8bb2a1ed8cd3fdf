#include "mezzo/kernels/cpu/conv/direct/conv2d_direct_narrow.h"

#include <algorithm>

#include "mezzo/core/parallel.h"
#include "mezzo/kernels/cpu/conv/direct/direct_narrow.h"
#include "mezzo/kernels/cpu/conv/problem.h"
#include "mezzo/kernels/cpu/loops/layout.h"

namespace mezzo::kernels::conv {
namespace {

direct_narrow::Weight narrow_weight_of(const Tensor& weight, Pass pass) {
  const Strides& s = weight.strides();
  const BFloat16* const first = weight.data<BFloat16>();
  if (pass == Pass::kForward) return {first, s[0], s[1], s[2], s[3]};
  const BFloat16* const last = first + (weight.size(2) - 1) * s[2] + (weight.size(3) - 1) * s[3];
  return {last, s[1], s[0], -s[2], -s[3]};
}

void run_narrow_of(const Problem& problem, const KernelArgs& args) {
  const direct_narrow::Plan plan(direct_narrow::problem_of(problem));
  const Tensor tiles = empty({plan.weight_tiles() << 10}, DType::kU8);
  auto* const weight = static_cast<char*>(tiles.mutable_raw_data());
  direct_narrow::pack(plan, narrow_weight_of(args.input(1), problem.pass), weight);
  const Tensor x = dense(args.input(0), Format::kChannelsLast);
  const Tensor bias =
      problem.has_bias ? dense(onednn::as_f32(args.input(2)), Format::kContiguous) : Tensor();
  const direct_narrow::Call call{.x = x.data<BFloat16>(),
                                 .weight = weight,
                                 .bias = bias.defined() ? bias.data<float>() : nullptr,
                                 .y = args.output().mutable_data<BFloat16>()};
  // A part takes at least some microseconds of multiply-adds.
  const std::int64_t part =
      plan.band * plan.strips() * problem.weight[2] * plan.blocks * plan.out_tiles;
  const std::int64_t grain = std::max<std::int64_t>(1, 512 / part);
  parallel_for(plan.problem.images * plan.bands(), grain,
               [&](std::int64_t begin, std::int64_t end) {
                 direct_narrow::convolve(plan, call, begin, end);
               });
}

}  // namespace

void run_direct_narrow(const KernelArgs& args) { run_narrow_of(forward_problem(args), args); }
void run_direct_narrow_grad_input(const KernelArgs& args) {
  run_narrow_of(gradient_problem(args, Pass::kGradInput), args);
}

}  // namespace mezzo::kernels::conv
