#include "mezzo/kernels/cpu/conv/direct/conv2d_direct.h"

#include <algorithm>

#include "mezzo/core/parallel.h"
#include "mezzo/kernels/cpu/conv/direct/direct.h"
#include "mezzo/kernels/cpu/conv/problem.h"
#include "mezzo/kernels/cpu/loops/layout.h"

namespace mezzo::kernels::conv {
namespace {

// The strides of the weight seen as [outer, inner, kh, kw].
Strides direct_strides_of(const Tensor& weight, Pass pass) {
  const Strides& s = weight.strides();
  return pass == Pass::kForward ? s : Strides{s[1], s[0], s[2], s[3]};
}

void run_direct_of(const Problem& p, const KernelArgs& args) {
  const Tensor& out = args.output();
  const Tensor& weight = args.input(1);
  const Shape dims{out.size(1), args.input(0).size(1), p.weight[2], p.weight[3]};
  const onednn::Desc tiles({dims[0], dims[1], dims[2], dims[3]}, dnnl::memory::data_type::bf16,
                           dnnl::memory::format_tag::OIhw16i16o2i);
  const ReadIn pass = p.pass == Pass::kForward ? ReadIn::kForward : ReadIn::kBackward;
  const onednn::Packed packed =
      onednn::packed(weight, dims, direct_strides_of(weight, p.pass), tiles, pass);
  const Tensor x = dense(args.input(0), Format::kChannelsLast);
  const Tensor bias = p.has_bias ? dense_f32(args.input(2)) : Tensor();
  const direct::Call call{.x = x.data<BFloat16>(),
                          .weight = static_cast<const char*>(packed.memory.get_data_handle()),
                          .bias = bias.defined() ? bias.data<float>() : nullptr,
                          .y = out.mutable_data<BFloat16>()};
  const direct::Plan plan = direct::plan_for(p, num_threads());
  // A part takes at least some microseconds of multiply-adds.
  const std::int64_t part = plan.band * plan.image.pitch() * plan.share * plan.inner * plan.taps;
  const std::int64_t grain = std::max<std::int64_t>(1, (std::int64_t{1} << 23) / part);
  parallel_for(plan.bands() * plan.shares(), grain, [&](std::int64_t begin, std::int64_t end) {
    direct::convolve(plan, call, begin, end);
  });
}

}  // namespace

void run_direct(const KernelArgs& args) {
  onednn::guarded("conv2d", args, [&] { run_direct_of(forward_problem(args), args); });
}
void run_direct_grad_input(const KernelArgs& args) {
  onednn::guarded("conv2d_grad_input", args,
                  [&] { run_direct_of(grad_input_problem(args), args); });
}
void run_direct_transposed(const KernelArgs& args) {
  onednn::guarded("conv_transpose2d", args, [&] { run_direct_of(transposed_problem(args), args); });
}

}  // namespace mezzo::kernels::conv
