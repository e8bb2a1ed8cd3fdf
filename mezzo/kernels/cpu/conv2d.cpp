#include "mezzo/core/cpu.h"
#include "mezzo/kernels/cpu/conv2d_pointwise.h"
#include "mezzo/kernels/cpu/conv2d_problem.h"
#include "mezzo/kernels/cpu/conv2d_whole.h"
#include "mezzo/kernels/cpu/grad_weight.h"
#include "mezzo/kernels/cpu/grad_weight_planar.h"
#include "mezzo/kernels/cpu/layout.h"
#include "mezzo/ops/dispatch.h"

namespace mezzo::kernels::cpu {
namespace {

using conv::Method;
using conv::Pass;
using conv::Problem;
using conv::ReadImage;
using conv::WrittenImage;
using onednn::Desc;

Support supports_forward(const KernelArgs& args) {
  const Support dtypes = onednn::supports_dtypes(args);
  return dtypes ? conv::support(conv::forward_problem(args)) : dtypes;
}

template <Pass kPass>
Support supports_gradient(const KernelArgs& args) {
  const Support dtypes = onednn::supports_dtypes(args);
  if (!dtypes) return dtypes;
  const Problem problem = conv::gradient_problem(args, kPass);
  const Size2d dilation = problem.attrs.dilation;
  if (kPass == Pass::kGradWeight && problem.dtype == DType::kBf16 && cpu_features().amx_bf16 &&
      (dilation.h > 1 || dilation.w > 1)) {
    // Seen in 2.6.3: sums over the wrong pixels, for channels that are no multiple of 16.
    return Support::no("oneDNN's dilated bf16 weight gradients are wrong with AMX");
  }
  return conv::support(problem);
}

// 3x3 kernels at stride 1 in f32 (Lavin and Gray, "Fast algorithms for convolutional neural
// networks", 2015): results of 4x4 pixels are made of 36 products instead of 144. What the
// transforms scale up cancels later, which loses two or three bits against direct sums, and an
// infinity or NaN reaches all results of its tile. Operands of 16 bits are transformed as f32
// numbers or not at all: rounded to 16 bits between the steps, those bits would be missing.
template <Pass kPass>
Support supports_winograd(const KernelArgs& args) {
  const Support dtypes = onednn::supports_dtypes(args);
  if (!dtypes) return dtypes;
  const Problem problem = kPass == Pass::kForward
                              ? conv::forward_problem(args, Method::kWinograd)
                              : conv::gradient_problem(args, kPass, Method::kWinograd);
  const Support worth = conv::winograd_pays(problem);
  return worth ? conv::support(problem) : worth;
}

template <Method kMethod>
void forward(const KernelArgs& args) {
  onednn::guarded("conv2d", args, [&] {
    const Problem p = conv::forward_problem(args, kMethod);
    const auto primitive = conv::find(p);
    const ReadImage x(p, args.input(0));
    const onednn::Packed weight = conv::packed_weight(p, args.input(1), *primitive);
    const WrittenImage y(p, args.output());
    if (p.has_bias) {
      const Tensor bias = dense(onednn::as_f32(args.input(2)), Format::kContiguous);
      const Desc row({p.weight[0]}, dnnl::memory::data_type::f32, dnnl::memory::format_tag::a);
      onednn::execute(*primitive, {{DNNL_ARG_SRC, x.memory()},
                                   {DNNL_ARG_WEIGHTS, weight.memory},
                                   {DNNL_ARG_BIAS, onednn::memory_of(bias, row)},
                                   {DNNL_ARG_DST, y.memory()}});
    } else {
      onednn::execute(*primitive, {{DNNL_ARG_SRC, x.memory()},
                                   {DNNL_ARG_WEIGHTS, weight.memory},
                                   {DNNL_ARG_DST, y.memory()}});
    }
    y.finish();
  });
}

template <Method kMethod>
void grad_input(const KernelArgs& args) {
  onednn::guarded("conv2d_grad_input", args, [&] {
    const Problem p = conv::gradient_problem(args, Pass::kGradInput, kMethod);
    const auto primitive = conv::find(p);
    const ReadImage grad(p, args.input(0));
    const onednn::Packed weight = conv::packed_weight(p, args.input(1), *primitive);
    const WrittenImage out(p, args.output());
    onednn::execute(*primitive, {{DNNL_ARG_DIFF_DST, grad.memory()},
                                 {DNNL_ARG_WEIGHTS, weight.memory},
                                 {DNNL_ARG_DIFF_SRC, out.memory()}});
    out.finish();
  });
}

template <Method kMethod>
void grad_weight(const KernelArgs& args) {
  onednn::guarded("conv2d_grad_weight", args, [&] {
    const Problem p = conv::gradient_problem(args, Pass::kGradWeight, kMethod);
    const auto primitive = conv::find(p);
    const ReadImage grad(p, args.input(0));
    const ReadImage x(p, args.input(1));
    const Tensor& out = args.output();
    const Desc plain = onednn::describe(p.weight_dims(), out.dtype(), p.weight_strides(out));
    const dnnl::memory result = onednn::memory_of(out, plain);
    const auto run = [&](const dnnl::memory& destination) {
      onednn::execute(*primitive, {{DNNL_ARG_DIFF_DST, grad.memory()},
                                   {DNNL_ARG_SRC, x.memory()},
                                   {DNNL_ARG_DIFF_WEIGHTS, destination}});
    };
    if (primitive->weights == plain) {
      run(result);
      return;
    }
    const onednn::Temporary blocked(primitive->weights);
    run(blocked.memory);
    onednn::reorder(blocked.memory, result);
  });
}

constexpr const char* kWinograd = "cpu_winograd";

// What computes in f32 for operands of other types.
template <Pass kPass>
bool takes_winograd(const KernelArgs& args) {
  return !is_kernel_disabled(kWinograd) && supports_winograd<kPass>(args);
}

void forward_f32(const KernelArgs& args) {
  takes_winograd<Pass::kForward>(args) ? forward<Method::kWinograd>(args)
                                       : forward<Method::kDirect>(args);
}

void grad_input_f32(const KernelArgs& args) {
  if (conv::is_pointwise(args)) return conv::grad_input_pointwise(args);
  takes_winograd<Pass::kGradInput>(args) ? grad_input<Method::kWinograd>(args)
                                         : grad_input<Method::kDirect>(args);
}

void grad_weight_f32(const KernelArgs& args) {
  takes_winograd<Pass::kGradWeight>(args) ? grad_weight<Method::kWinograd>(args)
                                          : grad_weight<Method::kDirect>(args);
}

// f16, and bf16 where oneDNN has no such convolution. oneDNN refuses f16 on CPUs, so it is stored
// in 16 bits and computed in f32: products and sums are f32 numbers, as they are where the hardware
// multiplies f16, and the result is rounded once. Memory is saved, time is not.
template <void (*kRun)(const KernelArgs&)>
constexpr Kernel kWidened{"cpu_onednn_f32", onednn::supports_widened,
                          [](const KernelArgs& args) { onednn::run_widened(args, kRun); }};

}  // namespace

extern const KernelList conv2d{
    {{{"cpu_whole", conv::supports_whole, conv::run_whole},
      {kWinograd, supports_winograd<Pass::kForward>, forward<Method::kWinograd>},
      {"cpu_onednn", supports_forward, forward<Method::kDirect>},
      kWidened<forward_f32>}}};
extern const KernelList conv2d_grad_input{
    {{{"cpu_whole", conv::supports_whole_grad_input, conv::run_whole_grad_input},
      {"cpu_onednn_1x1", conv::supports_pointwise, conv::grad_input_pointwise},
      {kWinograd, supports_winograd<Pass::kGradInput>, grad_input<Method::kWinograd>},
      {"cpu_onednn", supports_gradient<Pass::kGradInput>, grad_input<Method::kDirect>},
      kWidened<grad_input_f32>}}};
extern const KernelList conv2d_grad_weight{
    {{{"cpu_whole", conv::supports_whole_grad_weight, conv::run_whole_grad_weight},
      {"cpu_panels", supports_grad_weight, run_grad_weight},
      {"cpu_planar", supports_grad_weight_planar, run_grad_weight_planar},
      {kWinograd, supports_winograd<Pass::kGradWeight>, grad_weight<Method::kWinograd>},
      {"cpu_onednn", supports_gradient<Pass::kGradWeight>, grad_weight<Method::kDirect>},
      kWidened<grad_weight_f32>}}};

}  // namespace mezzo::kernels::cpu
