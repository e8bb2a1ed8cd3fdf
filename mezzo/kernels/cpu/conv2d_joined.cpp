#include "mezzo/kernels/cpu/conv2d_joined.h"

#include <algorithm>

#include "mezzo/core/parallel.h"
#include "mezzo/kernels/cpu/conv2d_problem.h"
#include "mezzo/kernels/cpu/joined.h"
#include "mezzo/kernels/cpu/layout.h"
#include "mezzo/kernels/cpu/tiles.h"

namespace mezzo::kernels::conv {
namespace {

constexpr std::int64_t kTileWidth = 32;  // numbers of a tile's row

// The gradient by the input is a convolution of the result's gradient with the turned kernel.
joined::Problem joined_problem(const Problem& p) {
  const Size2d kernel{p.weight[2], p.weight[3]};
  const Size2d x{p.x[2], p.x[3]};
  const Size2d y{p.y[2], p.y[3]};
  const Sides& padding = p.attrs.padding;
  if (p.pass == Pass::kForward) {
    return {.images = p.x[0],
            .x = x,
            .y = y,
            .kernel = kernel,
            .top = padding.top,
            .left = padding.left,
            .channels = p.weight[1],
            .outs = p.weight[0]};
  }
  return {.images = p.x[0],
          .x = y,
          .y = x,
          .kernel = kernel,
          .top = kernel.h - 1 - padding.top,
          .left = kernel.w - 1 - padding.left,
          .channels = p.weight[0],
          .outs = p.weight[1]};
}

Support supports_joined_operands(const KernelArgs& args) {
  if (!has_tiles()) return Support::no("this CPU has no AMX");
  return supports_bf16_tensors(args);
}

// Where it takes 0.4 to 0.95 of oneDNN 2.6.3's time on two threads
// (docs/benchmarks/convolutions.md). With more than half of the tiles empty, for the numbers of a
// kernel's row cannot be cut evenly, it takes up to 1.15; forward, images of 16 channels take 1.05.
Support is_joining_worth_it(const Problem& problem, const joined::Problem& p) {
  const bool is_forward = problem.pass == Pass::kForward;
  if (p.channels > (is_forward ? 15 : 16)) return Support::no("only for few channels");
  if (p.outs > 64) return Support::no("only for few channels of the result");
  const joined::Plan plan(p);
  if (plan.blocks == 0) return Support::no("the kernel's rows cannot be divided");
  const bool is_full = plan.blocks == 1 || 2 * plan.width >= kTileWidth;
  return is_full ? Support::yes() : Support::no("most of the tiles would be empty");
}

Support supports_joined_of(const Problem& problem) {
  const Conv2dAttrs& a = problem.attrs;
  if (a.groups != 1) return Support::no("only without groups");
  if (a.dilation != Size2d(1)) return Support::no("only without dilation");
  if (a.stride != Size2d(1)) return Support::no("only at stride 1");
  const joined::Problem p = joined_problem(problem);
  if (p.kernel.w == 1) return Support::no("only for kernels of several columns");
  if (p.top < 0 || p.left < 0) return Support::no("the padding is wider than the kernel");
  return is_joining_worth_it(problem, p);
}

joined::Weight joined_weight_of(const Tensor& weight, Pass pass) {
  const Strides& s = weight.strides();
  const BFloat16* const first = weight.data<BFloat16>();
  if (pass == Pass::kForward) return {first, s[0], s[1], s[2], s[3]};
  const BFloat16* const last = first + (weight.size(2) - 1) * s[2] + (weight.size(3) - 1) * s[3];
  return {last, s[1], s[0], -s[2], -s[3]};
}

void run_joined_of(const Problem& problem, const KernelArgs& args) {
  const joined::Plan plan(joined_problem(problem));
  const Tensor tiles = empty({plan.weight_tiles() << 10}, DType::kU8);
  auto* const weight = static_cast<char*>(tiles.mutable_raw_data());
  joined::pack(plan, joined_weight_of(args.input(1), problem.pass), weight);
  const Tensor x = dense(args.input(0), Format::kChannelsLast);
  const Tensor bias =
      problem.has_bias ? dense(onednn::as_f32(args.input(2)), Format::kContiguous) : Tensor();
  const joined::Call call{.x = x.data<BFloat16>(),
                          .weight = weight,
                          .bias = bias.defined() ? bias.data<float>() : nullptr,
                          .y = args.output().mutable_data<BFloat16>()};
  // Some microseconds of products.
  const std::int64_t part =
      plan.band * plan.strips() * problem.weight[2] * plan.blocks * plan.out_tiles;
  const std::int64_t grain = std::max<std::int64_t>(1, 512 / part);
  parallel_for(plan.problem.images * plan.bands(), grain,
               [&](std::int64_t begin, std::int64_t end) { convolve(plan, call, begin, end); });
}

}  // namespace

Support supports_joined(const KernelArgs& args) {
  const Support operands = supports_joined_operands(args);
  return operands ? supports_joined_of(forward_problem(args)) : operands;
}

Support supports_joined_grad_input(const KernelArgs& args) {
  const Support operands = supports_joined_operands(args);
  return operands ? supports_joined_of(gradient_problem(args, Pass::kGradInput)) : operands;
}

void run_joined(const KernelArgs& args) { run_joined_of(forward_problem(args), args); }
void run_joined_grad_input(const KernelArgs& args) {
  run_joined_of(gradient_problem(args, Pass::kGradInput), args);
}

}  // namespace mezzo::kernels::conv
