// Sums of products in Einstein's notation.
#pragma once

#include <span>
#include <string_view>

#include "mezzo/core/tensor.h"

namespace mezzo {

// The sum of products that the equation describes: einsum("bij,bjk->bik", {a, b}) is a product of
// matrices, "ii->i" a diagonal, "ij->ji" a transposition, "ij->" a sum. Labels are the letters
// a-z and A-Z, one per axis; axes with one label have one size. Without `->`, the result has the
// labels that occur once, in the order A-Z, a-z, as in PyTorch. Spaces do not count.
//
// Operands are joined from the left to the right, two at a time, by matmul(), or by a product
// element by element where nothing is summed. So precision is that of these operations: in mixed
// precision, products of matrices are computed in 16 bits with f32 sums. Throws ArgumentError for
// an equation that does not fit the operands, and for an ellipsis, which is not supported: name
// each axis.
Tensor einsum(std::string_view equation, std::span<const Tensor> operands);
inline Tensor einsum(std::string_view equation, std::initializer_list<Tensor> operands) {
  return einsum(equation, std::span<const Tensor>(operands.begin(), operands.size()));
}

}  // namespace mezzo
