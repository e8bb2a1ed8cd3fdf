// The description of a bf16 product, and how it is divided among threads.
#pragma once

#include "mezzo/core/tensor.h"
#include "mezzo/kernels/cpu/gemm/matmul_tiles_pack.h"
#include "mezzo/kernels/cpu/gemm/tiles.h"

namespace mezzo::kernels::matmul_tiles {

// A batch of products out[i] = a[i] b[i] + bias. The results are dense and follow one another.
struct Problem {
  Operand a, b;  // operands of the first product
  // Leading sizes; a_steps and b_steps are the operands' steps along them, in elements
  Shape batch;
  Shape a_steps, b_steps;
  bool a_is_dense = false, b_is_dense = false;  // along one axis, so it can be read in place

  // Where the operands of product `index` begin, relative to the first product's.
  struct Offsets {
    std::int64_t a = 0, b = 0;
  };
  Offsets offsets(std::int64_t index) const;
};

// Describes a product over the last two axes; a vector is one row. Looks at shapes and strides
// only.
Problem describe(const Tensor& a, bool transpose_a, const Tensor& b, bool transpose_b,
                 const Tensor& out);

// Which operand comes first, and into how many parts the rows and columns are cut.
struct Plan {
  bool transposed = false;  // the rows of the tiles are columns of the result
  std::int64_t row_parts = 1, column_parts = 1;
  std::int64_t grain = 1;  // the least number of parts for one thread
};
Plan plan_for(const Problem& problem, Bf16Unit unit, int threads);

}  // namespace mezzo::kernels::matmul_tiles
