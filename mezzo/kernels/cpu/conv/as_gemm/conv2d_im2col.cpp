#include "mezzo/kernels/cpu/conv/as_gemm/conv2d_im2col.h"

#include <array>

#include "mezzo/core/scratch.h"
#include "mezzo/kernels/cpu/conv/as_gemm/im2col.h"
#include "mezzo/kernels/cpu/conv/problem.h"
#include "mezzo/kernels/cpu/loops/layout.h"
#include "mezzo/ops/all.h"
#include "mezzo/ops/dispatcher/dispatch.h"

namespace mezzo::kernels::conv {
namespace {

PatchGrid grid_of(const Problem& p) {
  return {.count = {p.y[2], p.y[3]}, .size = {p.weight[2], p.weight[3]}, .stride = p.attrs.stride};
}

Shape patches_shape(const Problem& p) {
  return {p.x[0], p.weight[1] * p.weight[2] * p.weight[3], p.y[2], p.y[3]};
}

// The weight, dense and channels-last, as that of the 1x1 convolution.
Tensor of_patches(const Tensor& weight) {
  const std::int64_t channels = weight.size(1) * weight.size(2) * weight.size(3);
  return alias(weight, {weight.size(0), channels, 1, 1}, {channels, 1, channels, channels},
               weight.offset());
}

void run_op(const OpDef& op, const std::array<const Tensor*, 3>& inputs, Tensor output,
            const Attrs& attrs) {
  run_kernel(op, inputs, {&output, 1}, attrs);
}

}  // namespace

void run_im2col(const KernelArgs& args) {
  const Problem p = forward_problem(args);
  const Tensor x = gather_patches(dense(args.input(0), Format::kChannelsLast), grid_of(p));
  const Tensor weight = of_patches(dense(args.input(1), Format::kChannelsLast));
  const Tensor bias = args.has(2) ? args.input(2) : Tensor();
  run_op(ops::conv2d, {&x, &weight, &bias}, args.output(), Conv2dAttrs{});
}

void run_im2col_grad_input(const KernelArgs& args) {
  const Problem p = gradient_problem(args, Pass::kGradInput);
  const Tensor grad = dense(args.input(0), Format::kChannelsLast);
  const Tensor weight = of_patches(dense(args.input(1), Format::kChannelsLast));
  const Tensor patches = scratch(patches_shape(p), p.result, Format::kChannelsLast);
  const Tensor none;
  run_op(ops::conv2d_grad_input, {&grad, &weight, &none}, patches,
         Conv2dGradAttrs{.size = grid_of(p).count, .f32_result = p.result != p.dtype});
  spread_patches(patches, grid_of(p), args.output());
}

void run_im2col_grad_weight(const KernelArgs& args) {
  const Problem p = gradient_problem(args, Pass::kGradWeight);
  const Tensor grad = dense(args.input(0), Format::kChannelsLast);
  const Tensor x = gather_patches(dense(args.input(1), Format::kChannelsLast), grid_of(p));
  const Tensor& out = args.output();
  const bool is_in_place = out.is_dense(Format::kChannelsLast);
  const Tensor sums = is_in_place ? out : scratch(out.shape(), p.result, Format::kChannelsLast);
  const Tensor none;
  run_op(ops::conv2d_grad_weight, {&grad, &x, &none}, of_patches(sums),
         Conv2dGradAttrs{
             .size = 1, .f32_result = p.result != p.dtype, .format = Format::kChannelsLast});
  if (!is_in_place) copy_elements(sums, out);
}

}  // namespace mezzo::kernels::conv
