// What one thread does for a bf16 product: copies of the operands, and the sums of their tiles.
#pragma once

#include <array>
#include <cstdint>

#include "mezzo/core/tensor.h"
#include "mezzo/kernels/cpu/matmul_tiles_block.h"
#include "mezzo/kernels/cpu/matmul_tiles_problem.h"
#include "mezzo/kernels/cpu/tiles.h"
#include "mezzo/ops/result_rows.h"

namespace mezzo::kernels::matmul_tiles {

// Two tiles each way are computed at a time.
inline constexpr std::int64_t kPair = 32;

// One product: the rows of `first` by those of `second`.
struct Product {
  Operand first, second;
  Order order;    // transposed: the result is that of second and first
  Result result;  // all of it
};

// That product of the problem's batch. `result` is that of the first.
Product product_of(const Problem& problem, bool transposed, const Result& result,
                   std::int64_t index);

// A part of the product, in pairs of tiles.
struct Area {
  std::int64_t row = 0, end_row = 0;
  std::int64_t column = 0, end_column = 0;
};

// One thread's copies, and what it does with them.
class Worker {
 public:
  // For products of that inner size with at most `columns` pairs of columns at once.
  Worker(Bf16Unit unit, std::int64_t blocks, std::int64_t columns);

  void compute(const Product& product, const Area& area);
  // Of a product in that order whose result is f32 without a bias: computes it in memory of its own
  // and has it used, strip by strip of a pair of rows.
  void compute_for(const Product& product, const Area& area, ResultRows::Use use);

 private:
  // Packs the columns [begin, end).
  void pack_columns(std::int64_t begin, std::int64_t end);
  void read_rows(std::int64_t row);
  // Of the result's pair of rows and of columns, the latter the copy `at`; of `columns` pairs.
  void compute_block(std::int64_t row, std::int64_t column, std::int64_t at, std::int64_t columns);

  Bf16Unit unit_;
  UnitRegisters registers_;
  std::int64_t blocks_;
  std::int64_t chunk_;  // pairs of columns
  Tensor copies_;
  char* second_;
  char* first_;
  std::int64_t second_tiles_ = 0;  // that are copied
  Product product_{};              // that is computed, or a part of it
  std::array<Run, 2> runs_{};      // the rows where they are, and those that are copied
};

}  // namespace mezzo::kernels::matmul_tiles
