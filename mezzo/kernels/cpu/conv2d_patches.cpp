#include "mezzo/kernels/cpu/conv2d_patches.h"

#include <array>

#include "mezzo/core/scratch.h"
#include "mezzo/kernels/cpu/conv2d_problem.h"
#include "mezzo/kernels/cpu/layout.h"
#include "mezzo/kernels/cpu/patches.h"
#include "mezzo/ops/all.h"
#include "mezzo/ops/dispatch.h"

namespace mezzo::kernels::conv {
namespace {

// One thread's time relative to the kernels behind this one (docs/benchmarks/convolutions.md):
// gradients by images whose channels are no whole vectors 0.001 to 0.8, others 0.8 to 1.6; forward
// passes and gradients by the weight 0.4 to 1.1 where this holds, 0.9 to 3 elsewhere.
Support are_patches_worth_it(const Problem& p) {
  constexpr std::int64_t kVector = 16;
  const bool is_odd = p.weight[1] % kVector != 0;
  if (p.pass == Pass::kGradInput) {
    constexpr std::int64_t kLeastPiece = 6;  // numbers that are copied at a time
    return is_odd && p.weight[1] * p.weight[3] >= kLeastPiece
               ? Support::yes()
               : Support::no("others are as fast for so many channels");
  }
  const std::int64_t least = is_odd ? 512 : 1024;
  return p.weight[1] * p.weight[2] * p.weight[3] >= least
             ? Support::yes()
             : Support::no("others are as fast for so small patches");
}

Support supports_patches_of(const KernelArgs& args, const Problem& p) {
  const Support tensors = supports_vector_tensors(args);
  if (!tensors) return tensors;
  const Size2d kernel{p.weight[2], p.weight[3]};
  const Conv2dAttrs& a = p.attrs;
  if (kernel == Size2d(1)) return Support::no("only for windows of several pixels");
  if (a.stride.h < kernel.h || a.stride.w < kernel.w) {
    return Support::no("only for windows that do not overlap");
  }
  if (a.padding != Sides{} || a.groups != 1 || a.dilation != Size2d(1)) {
    return Support::no("only without padding, groups or dilation");
  }
  return are_patches_worth_it(p);
}

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

Support supports_patches(const KernelArgs& args) {
  return supports_patches_of(args, forward_problem(args));
}

Support supports_patches_grad_input(const KernelArgs& args) {
  return supports_patches_of(args, gradient_problem(args, Pass::kGradInput));
}

Support supports_patches_grad_weight(const KernelArgs& args) {
  return supports_patches_of(args, gradient_problem(args, Pass::kGradWeight));
}

void run_patches(const KernelArgs& args) {
  const Problem p = forward_problem(args);
  const Tensor x = gather_patches(dense(args.input(0), Format::kChannelsLast), grid_of(p));
  const Tensor weight = of_patches(dense(args.input(1), Format::kChannelsLast));
  const Tensor bias = args.has(2) ? args.input(2) : Tensor();
  run_op(ops::conv2d, {&x, &weight, &bias}, args.output(), Conv2dAttrs{});
}

void run_patches_grad_input(const KernelArgs& args) {
  const Problem p = gradient_problem(args, Pass::kGradInput);
  const Tensor grad = dense(args.input(0), Format::kChannelsLast);
  const Tensor weight = of_patches(dense(args.input(1), Format::kChannelsLast));
  const Tensor patches = scratch(patches_shape(p), p.result, Format::kChannelsLast);
  const Tensor none;
  run_op(ops::conv2d_grad_input, {&grad, &weight, &none}, patches,
         Conv2dGradAttrs{.size = grid_of(p).count, .f32_result = p.result != p.dtype});
  spread_patches(patches, grid_of(p), args.output());
}

void run_patches_grad_weight(const KernelArgs& args) {
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
