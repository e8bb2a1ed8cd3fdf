// A transposed convolution is the input gradient of a convolution, so every kernel of that gradient
// computes it.
#pragma once

#include <algorithm>

#include "mezzo/kernels/kernel.h"
#include "mezzo/ops/all.h"
#include "mezzo/ops/conv2d_attrs.h"
#include "mezzo/ops/dispatcher/dispatch.h"
#include "mezzo/ops/slice_attrs.h"

namespace mezzo::kernels {

// Adds a [o] bias, of any dtype, to f32 `sums` [n, o, h, w] and rounds them to `output`. Both are
// channels-last, and may be the same tensor.
using AddBias = void (*)(const Tensor& sums, const Tensor& bias, const Tensor& output);

// Computes the products without the bias: `sums` has the dtype of x, or is f32.
inline void run_transposed_products(const KernelArgs& args, const Tensor& x, Tensor sums) {
  const Tensor* const inputs[] = {&x, &args.input(1)};
  const Conv2dGradAttrs attrs{args.attrs<ConvTranspose2dAttrs>().conv,
                              {sums.size(2), sums.size(3)},
                              sums.dtype() != x.dtype()};
  run_kernel(ops::conv2d_grad_input, inputs, {&sums, 1}, attrs);
}

// With a bias, the sums stay f32 until it has been added: rounding twice would be off by more than
// half a unit in the last place. There is scratch for the sums of `at_once` samples.
inline void run_conv_transpose2d(const KernelArgs& args, AddBias add_bias, std::int64_t at_once) {
  const Tensor& x = args.input(0);
  const Tensor& output = args.output();
  if (!args.has(2)) return run_transposed_products(args, x, output);
  const Tensor& bias = args.input(2);
  if (output.dtype() == DType::kF32) {
    run_transposed_products(args, x, output);
    return add_bias(output, bias, output);
  }
  Shape shape = output.shape();
  shape[0] = std::min(at_once, shape[0]);
  const Tensor room = empty(shape, DType::kF32, Format::kChannelsLast, output.device());
  for (std::int64_t first = 0; first < output.size(0); first += at_once) {
    const SliceAttrs part{0, first, std::min(at_once, output.size(0) - first), 1};
    const Tensor sums = slice_of(room, {0, 0, part.count, 1});
    run_transposed_products(args, slice_of(x, part), sums);
    add_bias(sums, bias, slice_of(output, part));
  }
}

}  // namespace mezzo::kernels
