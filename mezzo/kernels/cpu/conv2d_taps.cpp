#include "mezzo/kernels/cpu/conv2d_taps.h"

#include <algorithm>

#include "mezzo/core/parallel.h"
#include "mezzo/kernels/cpu/conv2d_defects.h"
#include "mezzo/kernels/cpu/conv2d_problem.h"
#include "mezzo/kernels/cpu/layout.h"
#include "mezzo/kernels/cpu/taps.h"
#include "mezzo/kernels/cpu/tiles.h"

namespace mezzo::kernels::conv {
namespace {

// As many as a CPU with AMX has cores for, at least.
constexpr std::int64_t kManyImages = 16;

Support supports_tap_operands(const KernelArgs& args) {
  if (!has_tiles()) return Support::no("this CPU has no AMX");
  return supports_bf16_tensors(args);
}

// One thread's time relative to oneDNN 2.6.3 (docs/benchmarks/convolutions.md): gradients at a
// stride 0.35 to 0.5; at stride 1, 0.7 to 0.9 for images of 4x4 to 8x8 pixels and their gradients
// 0.3 to 0.95 up to 16x16, while larger images take 0.95 to 1.2. So do convolutions at a stride,
// where oneDNN is to be trusted and whole images are enough for the threads.
Support are_taps_worth_it(const Problem& p) {
  const bool is_forward = p.pass == Pass::kForward;
  const bool is_strided = p.attrs.stride != Size2d(1);
  if (is_strided && (!is_forward || p.x[0] < kManyImages || !is_trusted(p))) return Support::yes();
  const std::int64_t few_pixels = is_forward ? 64 : 256;
  return p.y[2] * p.y[3] <= few_pixels ? Support::yes()
                                       : Support::no("oneDNN is as fast for so many pixels");
}

Support supports_taps_of(const Problem& p) {
  if (p.attrs.groups != 1) return Support::no("only without groups");
  if (p.weight[2] * p.weight[3] == 1) return Support::no("only for kernels of several taps");
  if (p.weight[0] % taps::kBlock != 0 || p.weight[1] % taps::kBlock != 0) {
    return Support::no("only for multiples of 32 channels");
  }
  const Support worth = are_taps_worth_it(p);
  if (!worth) return worth;
  return taps::plan_for(p, 1).is_possible()
             ? Support::yes()
             : Support::no("the result is larger than what it reads");
}

// The weight seen as [outer, inner, kh, kw].
Strides tap_strides_of(const Tensor& weight, Pass pass) {
  const Strides& s = weight.strides();
  return pass == Pass::kForward ? s : Strides{s[1], s[0], s[2], s[3]};
}

void run_taps_of(const Problem& p, const KernelArgs& args) {
  const Tensor& out = args.output();
  const Tensor& weight = args.input(1);
  const Shape dims{out.size(1), args.input(0).size(1), p.weight[2], p.weight[3]};
  const onednn::Desc tiles({dims[0], dims[1], dims[2], dims[3]}, dnnl::memory::data_type::bf16,
                           dnnl::memory::format_tag::OIhw16i16o2i);
  const ReadIn pass = p.pass == Pass::kForward ? ReadIn::kForward : ReadIn::kBackward;
  const onednn::Packed packed =
      onednn::packed(weight, dims, tap_strides_of(weight, p.pass), tiles, pass);
  const Tensor x = dense(args.input(0), Format::kChannelsLast);
  const Tensor bias = p.has_bias ? dense_f32(args.input(2)) : Tensor();
  const taps::Call call{.x = x.data<BFloat16>(),
                        .weight = static_cast<const char*>(packed.memory.get_data_handle()),
                        .bias = bias.defined() ? bias.data<float>() : nullptr,
                        .y = out.mutable_data<BFloat16>()};
  const taps::Plan plan = taps::plan_for(p, num_threads());
  // Some microseconds of products.
  const std::int64_t part = plan.band * plan.image.pitch() * plan.share * plan.inner * plan.taps;
  const std::int64_t grain = std::max<std::int64_t>(1, (std::int64_t{1} << 23) / part);
  parallel_for(plan.bands() * plan.shares(), grain, [&](std::int64_t begin, std::int64_t end) {
    taps::convolve(plan, call, begin, end);
  });
}

Support supports_taps_of(const KernelArgs& args, Problem (*problem_of)(const KernelArgs&)) {
  const Support operands = supports_tap_operands(args);
  return operands ? supports_taps_of(problem_of(args)) : operands;
}

Problem tap_gradient_problem(const KernelArgs& args) {
  return gradient_problem(args, Pass::kGradInput);
}

}  // namespace

Support supports_taps(const KernelArgs& args) { return supports_taps_of(args, forward_problem); }
Support supports_taps_grad_input(const KernelArgs& args) {
  return supports_taps_of(args, tap_gradient_problem);
}
Support supports_taps_transposed(const KernelArgs& args) {
  return supports_taps_of(args, transposed_problem);
}

void run_taps(const KernelArgs& args) {
  onednn::guarded("conv2d", args, [&] { run_taps_of(forward_problem(args), args); });
}
void run_taps_grad_input(const KernelArgs& args) {
  onednn::guarded("conv2d_grad_input", args,
                  [&] { run_taps_of(tap_gradient_problem(args), args); });
}
void run_taps_transposed(const KernelArgs& args) {
  onednn::guarded("conv_transpose2d", args, [&] { run_taps_of(transposed_problem(args), args); });
}

}  // namespace mezzo::kernels::conv
