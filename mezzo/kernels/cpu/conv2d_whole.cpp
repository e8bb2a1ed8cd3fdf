#include "mezzo/kernels/cpu/conv2d_whole.h"

#include <algorithm>
#include <initializer_list>

#include "mezzo/core/scratch.h"
#include "mezzo/kernels/cpu/conv2d_problem.h"
#include "mezzo/kernels/cpu/layout.h"
#include "mezzo/kernels/cpu/pixel_pairs.h"
#include "mezzo/ops/all.h"
#include "mezzo/ops/dispatch.h"
#include "mezzo/ops/matmul_attrs.h"

namespace mezzo::kernels::conv {
namespace {

Support supports_whole_of(const KernelArgs& args, const Problem& problem) {
  const Support dtypes = vector_dtypes_only(args);
  if (!dtypes) return dtypes;
  const bool is_empty = std::ranges::any_of(
      args.inputs, [](const Tensor* input) { return input->defined() && input->numel() == 0; });
  if (is_empty) return Support::no("an input has no elements");
  if (problem.attrs.groups != 1) return Support::no("only for one group");
  return PixelPairs::are_worth_it(problem) ? Support::yes()
                                           : Support::no("only for many images of a few pixels");
}

// The images as rows of [pixels * channels], over the same memory; it is dense and channels-last.
Tensor as_rows(const Tensor& images) {
  const Shape& shape = images.shape();
  const Shape rows{shape[0], shape[1] * shape[2] * shape[3]};
  return Tensor(make_ref<TensorImpl>(images.storage(), images.offset(), rows,
                                     strides_for(rows, Format::kContiguous), images.dtype()));
}

Tensor read_rows(const Tensor& images) { return as_rows(dense(images, Format::kChannelsLast)); }

void run_matmul(std::initializer_list<const Tensor*> inputs, Tensor output,
                const MatmulAttrs& attrs) {
  run_kernel(ops::matmul, Inputs(inputs.begin(), inputs.size()), {&output, 1}, attrs);
}

// The bias of every channel, once for each pixel.
Tensor repeat(const Tensor& bias, std::int64_t times) {
  if (!bias.defined() || times == 1) return bias;
  const Tensor row = dense_f32(bias);
  const Tensor result = empty({times * row.numel()}, DType::kF32);
  for (std::int64_t i = 0; i < times; ++i) {
    std::copy_n(row.data<float>(), row.numel(), result.mutable_data<float>() + i * row.numel());
  }
  return result;
}

}  // namespace

Support supports_whole(const KernelArgs& args) {
  return supports_whole_of(args, forward_problem(args));
}

Support supports_whole_grad_input(const KernelArgs& args) {
  return supports_whole_of(args, gradient_problem(args, Pass::kGradInput));
}

Support supports_whole_grad_weight(const KernelArgs& args) {
  return supports_whole_of(args, gradient_problem(args, Pass::kGradWeight));
}

void run_whole(const KernelArgs& args) {
  const PixelPairs pairs(forward_problem(args));
  const Tensor x = read_rows(args.input(0));
  const Tensor matrix = pairs.matrix_of(args.input(1));
  const Tensor bias = repeat(args.has(2) ? args.input(2) : Tensor(), pairs.result_pixels());
  run_matmul({&x, &matrix, &bias}, as_rows(args.output()), MatmulAttrs{.transpose_b = true});
}

void run_whole_grad_input(const KernelArgs& args) {
  const PixelPairs pairs(gradient_problem(args, Pass::kGradInput));
  const Tensor grad = read_rows(args.input(0));
  const Tensor matrix = pairs.matrix_of(args.input(1));
  const Tensor none;
  run_matmul({&grad, &matrix, &none}, as_rows(args.output()),
             MatmulAttrs{.f32_result = args.output().dtype() != grad.dtype()});
}

void run_whole_grad_weight(const KernelArgs& args) {
  const PixelPairs pairs(gradient_problem(args, Pass::kGradWeight));
  const Tensor grad = read_rows(args.input(0));
  const Tensor x = read_rows(args.input(1));
  const Tensor sums = scratch(pairs.matrix_shape(), DType::kF32);
  const Tensor none;
  run_matmul({&grad, &x, &none}, sums,
             MatmulAttrs{.transpose_a = true, .f32_result = is_lower(x.dtype())});
  pairs.fold(sums, args.output());
}

}  // namespace mezzo::kernels::conv
