// Helpers for the definitions of operations that broadcast their operands.
#pragma once

#include <initializer_list>

#include "mezzo/ops/arithmetic.h"
#include "mezzo/ops/dispatcher/op.h"

namespace mezzo {

// States an output of the shape to which these operands broadcast. The first operand that has that
// shape determines the format, so that a bias does not turn activations row-major.
inline void output_broadcast(Infer& infer, DType dtype,
                             std::initializer_list<std::size_t> operands) {
  Shape shape;
  for (const std::size_t i : operands) shape = broadcast(shape, infer.shape(i), infer.op());
  for (const std::size_t i : operands) {
    if (infer.shape(i) == shape) return infer.output(shape, dtype, infer.input(i).format());
  }
  infer.output(shape, dtype);
}

// Sets the gradient of an operand that may have been broadcast.
inline void set_reduced(Backward& ctx, std::size_t i, const Tensor& grad) {
  ctx.set(i, sum_to(grad, ctx.input_shape(i), ctx.grad_dtype(i)));
}

}  // namespace mezzo
