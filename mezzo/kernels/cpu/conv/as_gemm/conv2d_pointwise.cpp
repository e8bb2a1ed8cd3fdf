#include "mezzo/kernels/cpu/conv/as_gemm/conv2d_pointwise.h"

#include "mezzo/kernels/cpu/conv/as_gemm/im2col.h"
#include "mezzo/kernels/cpu/conv/problem.h"
#include "mezzo/kernels/cpu/loops/layout.h"

namespace mezzo::kernels::conv {
namespace {

// The input gradient of a convolution with 1x1 kernels is itself a convolution, of the result's
// gradient with the transposed weight. oneDNN's forward kernels are the faster ones
// (docs/benchmarks/convolutions.md). With a stride, no output was computed from the pixels in
// between.
Problem pointwise_problem(const KernelArgs& args) {
  const Shape& grad = args.input(0).shape();
  const std::int64_t channels = args.input(1).size(1);
  return {Pass::kForward,
          grad,
          {channels, grad[1], 1, 1},
          {grad[0], channels, grad[2], grad[3]},
          Conv2dAttrs{},
          args.input(0).dtype(),
          args.output().dtype()};
}

}  // namespace

bool is_pointwise(const KernelArgs& args) {
  const Shape& weight = args.input(1).shape();
  return args.attrs<Conv2dGradAttrs>().conv.is_pointwise({weight[2], weight[3]});
}

void grad_input_pointwise(const KernelArgs& args) {
  onednn::guarded("conv2d_grad_input", args, [&] {
    const Problem p = pointwise_problem(args);
    const auto primitive = find(p);
    const Tensor grad = dense(args.input(0), Format::kChannelsLast);
    const Tensor& weight = args.input(1);
    const Strides& s = weight.strides();
    const onednn::Packed packed = onednn::packed(weight, p.weight, {s[1], s[0], s[2], s[3]},
                                                 primitive->weights, ReadIn::kBackward);
    const Tensor& out = args.output();
    const bool has_gaps = p.y != out.shape();
    const Tensor result = has_gaps ? empty(p.y, out.dtype(), Format::kChannelsLast) : out;
    onednn::execute(*primitive, {{DNNL_ARG_SRC, image_memory(grad)},
                                 {DNNL_ARG_WEIGHTS, packed.memory},
                                 {DNNL_ARG_DST, image_memory(result)}});
    const Size2d stride = args.attrs<Conv2dGradAttrs>().conv.stride;
    if (has_gaps) spread_patches(result, {.count = {p.y[2], p.y[3]}, .stride = stride}, out);
  });
}

}  // namespace mezzo::kernels::conv
