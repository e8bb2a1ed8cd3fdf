#include "mezzo/kernels/cpu/conv/direct/conv2d_direct.h"

#include <algorithm>

#include "mezzo/core/parallel.h"
#include "mezzo/kernels/cpu/conv/defects.h"
#include "mezzo/kernels/cpu/conv/direct/direct.h"
#include "mezzo/kernels/cpu/conv/problem.h"
#include "mezzo/kernels/cpu/gemm/tiles.h"
#include "mezzo/kernels/cpu/loops/layout.h"

namespace mezzo::kernels::conv {
namespace {

using direct::kBlock;
using direct::Plan;
using direct::plan_for;

// With fewer images oneDNN may leave cores idle: CPUs with AMX have this many cores or more.
constexpr std::int64_t kManyImages = 16;

Support supports_operands(const KernelArgs& args) {
  if (!has_tiles()) return Support::no("this CPU has no AMX");
  return supports_bf16_tensors(args);
}

// Conditions for a gain. docs/benchmarks/convolutions.md gives one thread's time relative to oneDNN
// 2.6.3:
//
// | pass                                          | relative time |
// |-----------------------------------------------|---------------|
// | gradients with a stride                       | 0.35 to 0.5   |
// | stride 1, images of 4x4 to 8x8 pixels         | 0.7 to 0.9    |
// | their gradients, up to 16x16 pixels           | 0.3 to 0.95   |
// | larger images, and convolutions with a stride | 0.95 to 1.2   |
//
// Convolutions with a stride are still taken where oneDNN is not trusted, or has too few whole
// images for the threads.
Support is_worth_it(const Problem& p) {
  const bool is_forward = p.pass == Pass::kForward;
  const bool is_strided = p.attrs.stride != Size2d(1);
  if (is_strided && (!is_forward || p.x[0] < kManyImages || !is_trusted(p))) return Support::yes();
  const std::int64_t few_pixels = is_forward ? 64 : 256;
  return p.y[2] * p.y[3] <= few_pixels ? Support::yes()
                                       : Support::no("oneDNN is as fast for so many pixels");
}

Support supports(const Problem& p) {
  if (p.attrs.groups != 1) return Support::no("only without groups");
  if (p.weight[2] * p.weight[3] == 1) return Support::no("only for kernels of several taps");
  if (p.weight[0] % kBlock != 0 || p.weight[1] % kBlock != 0) {
    return Support::no("only for multiples of 32 channels");
  }
  const Support worth = is_worth_it(p);
  if (!worth) return worth;
  return plan_for(p, 1).is_possible() ? Support::yes()
                                      : Support::no("the result is larger than what it reads");
}

// The strides of the weight seen as [outer, inner, kh, kw].
Strides strides_of(const Tensor& weight, Pass pass) {
  const Strides& s = weight.strides();
  return pass == Pass::kForward ? s : Strides{s[1], s[0], s[2], s[3]};
}

void run(const Problem& p, const KernelArgs& args) {
  const Tensor& out = args.output();
  const Tensor& weight = args.input(1);
  const Shape dims{out.size(1), args.input(0).size(1), p.weight[2], p.weight[3]};
  const onednn::Desc tiles({dims[0], dims[1], dims[2], dims[3]}, dnnl::memory::data_type::bf16,
                           dnnl::memory::format_tag::OIhw16i16o2i);
  const ReadIn pass = p.pass == Pass::kForward ? ReadIn::kForward : ReadIn::kBackward;
  const onednn::Packed packed =
      onednn::packed(weight, dims, strides_of(weight, p.pass), tiles, pass);
  const Tensor x = dense(args.input(0), Format::kChannelsLast);
  const Tensor bias = p.has_bias ? dense_f32(args.input(2)) : Tensor();
  const direct::Call call{.x = x.data<BFloat16>(),
                          .weight = static_cast<const char*>(packed.memory.get_data_handle()),
                          .bias = bias.defined() ? bias.data<float>() : nullptr,
                          .y = out.mutable_data<BFloat16>()};
  const Plan plan = plan_for(p, num_threads());
  // A part takes at least some microseconds of multiply-adds.
  const std::int64_t part = plan.band * plan.image.pitch() * plan.share * plan.inner * plan.taps;
  const std::int64_t grain = std::max<std::int64_t>(1, (std::int64_t{1} << 23) / part);
  parallel_for(plan.bands() * plan.shares(), grain, [&](std::int64_t begin, std::int64_t end) {
    direct::convolve(plan, call, begin, end);
  });
}

Support supports(const KernelArgs& args, Problem (*problem_of)(const KernelArgs&)) {
  const Support operands = supports_operands(args);
  return operands ? supports(problem_of(args)) : operands;
}

Problem grad_input_problem(const KernelArgs& args) {
  return gradient_problem(args, Pass::kGradInput);
}

}  // namespace

Support supports_direct(const KernelArgs& args) { return supports(args, forward_problem); }
Support supports_direct_grad_input(const KernelArgs& args) {
  return supports(args, grad_input_problem);
}
Support supports_direct_transposed(const KernelArgs& args) {
  return supports(args, transposed_problem);
}

void run_direct(const KernelArgs& args) {
  onednn::guarded("conv2d", args, [&] { run(forward_problem(args), args); });
}
void run_direct_grad_input(const KernelArgs& args) {
  onednn::guarded("conv2d_grad_input", args, [&] { run(grad_input_problem(args), args); });
}
void run_direct_transposed(const KernelArgs& args) {
  onednn::guarded("conv_transpose2d", args, [&] { run(transposed_problem(args), args); });
}

}  // namespace mezzo::kernels::conv
