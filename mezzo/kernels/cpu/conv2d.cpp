// The kernels of conv2d and of its gradients, in order of preference, and those that call oneDNN.
// A kernel's supports() also refuses calls for which the kernels after it are faster.
#include "mezzo/core/parallel.h"
#include "mezzo/kernels/cpu/conv/as_gemm/conv2d_col2im.h"
#include "mezzo/kernels/cpu/conv/as_gemm/conv2d_fully_connected.h"
#include "mezzo/kernels/cpu/conv/as_gemm/conv2d_im2col.h"
#include "mezzo/kernels/cpu/conv/as_gemm/conv2d_pixels.h"
#include "mezzo/kernels/cpu/conv/as_gemm/conv2d_pointwise.h"
#include "mezzo/kernels/cpu/conv/as_gemm/im2col.h"
#include "mezzo/kernels/cpu/conv/choice/choose.h"
#include "mezzo/kernels/cpu/conv/defects.h"
#include "mezzo/kernels/cpu/conv/direct/conv2d_direct.h"
#include "mezzo/kernels/cpu/conv/direct/conv2d_direct_narrow.h"
#include "mezzo/kernels/cpu/conv/grad_weight/grad_weight.h"
#include "mezzo/kernels/cpu/conv/planar/conv2d_planar.h"
#include "mezzo/kernels/cpu/conv/planar/conv2d_row_sums.h"
#include "mezzo/kernels/cpu/conv/planar/grad_weight_planar.h"
#include "mezzo/kernels/cpu/conv/problem.h"
#include "mezzo/kernels/cpu/conv/widened.h"
#include "mezzo/kernels/cpu/conv/winograd/conv2d_winograd.h"
#include "mezzo/kernels/cpu/loops/layout.h"
#include "mezzo/ops/dispatcher/dispatch.h"
#include "mezzo/ops/slice_attrs.h"

namespace mezzo::kernels::cpu {
namespace {

using conv::Pass;
using conv::Problem;
using onednn::Desc;

// The problem of one image, which one thread computes.
Problem of_one_image(Problem p) {
  p.x[0] = p.y[0] = 1;
  p.on_one_thread = true;
  return p;
}

Problem as_computed(const Problem& p) { return conv::needs_whole_images(p) ? of_one_image(p) : p; }

Support supports_forward(const KernelArgs& args) {
  const Support dtypes = onednn::supports_dtypes(args);
  if (!dtypes) return dtypes;
  const Problem p = conv::forward_problem(args);
  const Support trust = conv::is_trusted(p);
  return trust ? conv::support(as_computed(p)) : trust;
}

// True for 1x1 kernels with a stride on images of few channels. oneDNN 2.6.3 gathers their pixels
// in a workspace, and writes past its end if there are fewer channels than a vector has lanes.
bool overruns_workspace(const Problem& p) {
  constexpr std::int64_t kMostLanes = 16;
  return p.weight[2] == 1 && p.weight[3] == 1 && p.weight[1] < kMostLanes &&
         p.attrs.padding == Sides{} && p.attrs.stride != Size2d(1);
}

// The same gradient, over only those pixels that the kernel meets; gather_patches() copies them.
Problem without_stride(Problem p) {
  p.x = {p.x[0], p.x[1], p.y[2], p.y[3]};
  p.attrs.stride = 1;
  return p;
}

template <Pass kPass>
Support supports_gradient(const KernelArgs& args) {
  const Support dtypes = onednn::supports_dtypes(args);
  if (!dtypes) return dtypes;
  const Problem problem = conv::gradient_problem(args, kPass);
  const Support trust = conv::is_trusted(problem);
  if (!trust) return trust;
  const bool is_cut = kPass == Pass::kGradWeight && overruns_workspace(problem);
  return conv::support(is_cut ? without_stride(problem) : problem);
}

// The operands of a forward primitive besides the images; the bias may be empty.
struct Operands {
  const onednn::Primitive& primitive;
  dnnl::memory weight, bias;
};

void convolve(const Operands& operands, const Tensor& x, const Tensor& y) {
  const dnnl::memory image = conv::image_memory(x);
  const dnnl::memory result = conv::image_memory(y);
  if (!operands.bias) {
    onednn::execute(
        operands.primitive,
        {{DNNL_ARG_SRC, image}, {DNNL_ARG_WEIGHTS, operands.weight}, {DNNL_ARG_DST, result}});
    return;
  }
  onednn::execute(operands.primitive, {{DNNL_ARG_SRC, image},
                                       {DNNL_ARG_WEIGHTS, operands.weight},
                                       {DNNL_ARG_BIAS, operands.bias},
                                       {DNNL_ARG_DST, result}});
}

void forward(const KernelArgs& args) {
  onednn::guarded("conv2d", args, [&] {
    const Problem asked = conv::forward_problem(args);
    const Problem p = as_computed(asked);
    const auto primitive = conv::find(p);
    const Tensor x = dense(args.input(0), Format::kChannelsLast);
    const onednn::Packed weight = conv::packed_weight(p, args.input(1), *primitive);
    Operands operands{*primitive, weight.memory, {}};
    Tensor bias;
    if (p.has_bias) {
      bias = dense(onednn::as_f32(args.input(2)), Format::kContiguous);
      const Desc row({p.weight[0]}, dnnl::memory::data_type::f32, dnnl::memory::format_tag::a);
      operands.bias = onednn::memory_of(bias, row);
    }
    if (!p.on_one_thread) return convolve(operands, x, args.output());
    parallel_for(asked.x[0], 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        const SliceAttrs image{0, i, 1, 1};
        convolve(operands, slice_of(x, image), slice_of(args.output(), image));
      }
    });
  });
}

void grad_input(const KernelArgs& args) {
  onednn::guarded("conv2d_grad_input", args, [&] {
    const Problem p = conv::gradient_problem(args, Pass::kGradInput);
    const auto primitive = conv::find(p);
    const Tensor grad = dense(args.input(0), Format::kChannelsLast);
    const onednn::Packed weight = conv::packed_weight(p, args.input(1), *primitive);
    onednn::execute(*primitive, {{DNNL_ARG_DIFF_DST, conv::image_memory(grad)},
                                 {DNNL_ARG_WEIGHTS, weight.memory},
                                 {DNNL_ARG_DIFF_SRC, conv::image_memory(args.output())}});
  });
}

void grad_weight(const KernelArgs& args) {
  onednn::guarded("conv2d_grad_weight", args, [&] {
    const Problem asked = conv::gradient_problem(args, Pass::kGradWeight);
    const bool is_cut = overruns_workspace(asked);
    const Problem p = is_cut ? without_stride(asked) : asked;
    const auto primitive = conv::find(p);
    const Tensor grad = dense(args.input(0), Format::kChannelsLast);
    const Tensor image = dense(args.input(1), Format::kChannelsLast);
    const Tensor x = is_cut ? conv::gather_patches(
                                  image, {.count = {p.x[2], p.x[3]}, .stride = asked.attrs.stride})
                            : image;
    const Tensor& out = args.output();
    const Desc plain = onednn::describe(p.weight_dims(), out.dtype(), p.weight_strides(out));
    const dnnl::memory result = onednn::memory_of(out, plain);
    const auto run = [&](const dnnl::memory& destination) {
      onednn::execute(*primitive, {{DNNL_ARG_DIFF_DST, conv::image_memory(grad)},
                                   {DNNL_ARG_SRC, conv::image_memory(x)},
                                   {DNNL_ARG_DIFF_WEIGHTS, destination}});
    };
    if (primitive->weights == plain) {
      run(result);
      return;
    }
    const onednn::Temporary blocked(primitive->weights);
    run(blocked.memory);
    onednn::unpacked(blocked.memory, out, p.weight_dims(), p.weight_strides(out));
  });
}

void grad_input_f32(const KernelArgs& args) {
  conv::is_pointwise(args) ? conv::grad_input_pointwise(args) : grad_input(args);
}

// The method for f16, and for bf16 where the CPU does not multiply it faster than f32. oneDNN
// refuses f16 on CPUs, so it is stored in 16 bits and computed in f32. Products and sums are f32,
// as with hardware f16 multiplication, and the result is rounded once. That saves memory, not time.
constexpr const char* kWidened = "cpu_onednn_f32";

void forward_widened(const KernelArgs& args) { conv::run_widened_images(args, forward); }
void grad_input_widened(const KernelArgs& args) { conv::run_widened_images(args, grad_input_f32); }
void grad_weight_widened(const KernelArgs& args) { onednn::run_widened(args, grad_weight); }

}  // namespace

extern const KernelList conv2d{
    {{{conv::kFullyConnected.name, conv::takes<conv::kFullyConnected, conv::forward_problem>,
       conv::run_fully_connected},
      {conv::kIm2col.name, conv::takes<conv::kIm2col, conv::forward_problem>, conv::run_im2col},
      {conv::kWinograd.name, conv::takes<conv::kWinograd, conv::forward_problem>,
       conv::run_winograd},
      {conv::kPixels.name, conv::takes<conv::kPixels, conv::forward_problem>, conv::run_pixels,
       conv::normalises_pixels},
      {conv::kDirect.name, conv::takes<conv::kDirect, conv::forward_problem>, conv::run_direct},
      {conv::kPlanar.name, conv::takes<conv::kPlanar, conv::forward_problem>, conv::run_planar},
      {conv::kDirectNarrow.name, conv::takes<conv::kDirectNarrow, conv::forward_problem>,
       conv::run_direct_narrow},
      {"cpu_onednn", supports_forward, forward},
      {kWidened, onednn::supports_widened, forward_widened}}}};
extern const KernelList conv2d_grad_input{
    {{{conv::kFullyConnected.name, conv::takes<conv::kFullyConnected, conv::grad_input_problem>,
       conv::run_fully_connected_grad_input},
      {conv::kIm2col.name, conv::takes<conv::kIm2col, conv::grad_input_problem>,
       conv::run_im2col_grad_input},
      {conv::kCol2im.name, conv::takes<conv::kCol2im, conv::grad_input_problem>,
       conv::run_col2im_grad_input},
      {conv::kPixels.name, conv::takes<conv::kPixels, conv::grad_input_problem>,
       conv::run_pixels_grad_input},
      {conv::kPointwise.name, conv::takes<conv::kPointwise, conv::grad_input_problem>,
       conv::grad_input_pointwise},
      {conv::kWinograd.name, conv::takes<conv::kWinograd, conv::grad_input_problem>,
       conv::run_winograd_grad_input},
      {conv::kDirect.name, conv::takes<conv::kDirect, conv::grad_input_problem>,
       conv::run_direct_grad_input},
      {conv::kPlanar.name, conv::takes<conv::kPlanar, conv::grad_input_problem>,
       conv::run_planar_grad_input},
      {conv::kRowSums.name, conv::takes<conv::kRowSums, conv::grad_input_problem>,
       conv::run_row_sums},
      {conv::kDirectNarrow.name, conv::takes<conv::kDirectNarrow, conv::grad_input_problem>,
       conv::run_direct_narrow_grad_input},
      {"cpu_onednn", supports_gradient<Pass::kGradInput>, grad_input},
      {kWidened, onednn::supports_widened, grad_input_widened}}}};
extern const KernelList conv2d_grad_weight{
    {{{conv::kFullyConnected.name, conv::takes<conv::kFullyConnected, conv::grad_weight_problem>,
       conv::run_fully_connected_grad_weight},
      {conv::kIm2col.name, conv::takes<conv::kIm2col, conv::grad_weight_problem>,
       conv::run_im2col_grad_weight},
      {conv::kWinograd.name, conv::takes<conv::kWinograd, conv::grad_weight_problem>,
       conv::run_winograd_grad_weight},
      {conv::kGradWeight.name, conv::takes<conv::kGradWeight, conv::grad_weight_problem>,
       run_grad_weight, normalises_in_grad_weight},
      {conv::kGradWeightPlanar.name,
       conv::takes<conv::kGradWeightPlanar, conv::grad_weight_problem>, run_grad_weight_planar},
      {"cpu_onednn", supports_gradient<Pass::kGradWeight>, grad_weight},
      {kWidened, onednn::supports_widened, grad_weight_widened}}}};

}  // namespace mezzo::kernels::cpu
