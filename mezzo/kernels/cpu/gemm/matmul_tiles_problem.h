// What a bf16 product consists of, and how it is divided among threads.
#pragma once

#include "mezzo/core/tensor.h"
#include "mezzo/kernels/cpu/gemm/matmul_tiles_pack.h"
#include "mezzo/kernels/cpu/gemm/tiles.h"

namespace mezzo::kernels::matmul_tiles {

// out[i] = a[i] b[i] + bias for a batch of matrices, each result dense, one after the other.
struct Problem {
  Operand a, b;  // those of the first product
  Shape batch;   // leading sizes, and what a step along them means for the operands, in elements
  Shape a_steps, b_steps;
  bool a_is_dense = false, b_is_dense = false;  // along one axis: it can be read where it is

  // Where the operands of the product of that index begin, relative to the first one's.
  struct Offsets {
    std::int64_t a = 0, b = 0;
  };
  Offsets offsets(std::int64_t index) const;
};

// The shapes and strides of a product of the last two axes; a vector is one row. Reads no memory.
Problem describe(const Tensor& a, bool transpose_a, const Tensor& b, bool transpose_b,
                 const Tensor& out);

// Which operand comes first, and into how many parts the rows and columns are cut.
struct Plan {
  bool transposed = false;  // the columns of the result are the rows of the tiles
  std::int64_t row_parts = 1, column_parts = 1;
  std::int64_t grain = 1;  // parts that one thread should have at least
};
Plan plan_for(const Problem& problem, Bf16Unit unit, int threads);

}  // namespace mezzo::kernels::matmul_tiles
