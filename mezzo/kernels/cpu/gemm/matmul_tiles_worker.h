// The work of one thread for a bf16 product: copying the operands, and summing their tiles.
#pragma once

#include <array>
#include <cstdint>

#include "mezzo/core/tensor.h"
#include "mezzo/kernels/cpu/gemm/matmul_tiles_block.h"
#include "mezzo/kernels/cpu/gemm/matmul_tiles_problem.h"
#include "mezzo/kernels/cpu/gemm/tiles.h"
#include "mezzo/ops/fusion/result_rows.h"

namespace mezzo::kernels::matmul_tiles {

// Rows or columns that are computed at a time: two tiles.
inline constexpr std::int64_t kPair = 32;

// One product: the rows of `first` by those of `second`.
struct Product {
  Operand first, second;
  Order order;    // transposed: the result is that of second times first
  Result result;  // the whole result
};

// The product of that index in the problem's batch. `result` is that of product 0.
Product product_of(const Problem& problem, bool transposed, const Result& result,
                   std::int64_t index);

// A part of the product, in pairs of tiles.
struct Area {
  std::int64_t row = 0, end_row = 0;
  std::int64_t column = 0, end_column = 0;
};

// The most blocks of kInner elements that are summed in one run. With longer lines, the operands'
// copies would leave each other too little of the second-level cache.
inline constexpr std::int64_t kMostBlocks = 64;

// The sums of an area, kept between runs.
class LongSums {
 public:
  explicit LongSums(const Area& area);
  // The sums at that pair of rows and of columns.
  Sums at(std::int64_t row, std::int64_t column) const;

  bool begun = false, ends = false;  // begun: a run preceded this one; ends: this is the last run

 private:
  Area area_;
  Tensor values_;
};

// One thread's copies of the operands, and the computation on them.
class Worker {
 public:
  struct Size {
    std::int64_t rows = 1, columns = 1;  // in pairs of tiles
  };
  // For products whose first operand is like `first`, and areas of at most the size `area`.
  Worker(Bf16Unit unit, const Operand& first, const Size& area);

  void compute(const Product& product, const Area& area);
  // Computes a part of a product whose result is f32 without bias and whose order is not
  // transposed. The values go to a buffer of its own, and `use` gets them strip by strip, each a
  // pair of rows. The inner axis must fit in one run.
  void compute_for(const Product& product, const Area& area, ResultRows::Use use);

 private:
  // Continues with a part of the inner axis: at most `most_blocks_` blocks, from `block` on.
  void begin_run(const Product& product, std::int64_t block);
  // Calls `use` with chunks of the area, whose rows and columns are copied by then.
  template <class UseChunk>
  void for_chunks(const Area& area, const UseChunk& use);
  // Calls `use` for every pair of rows and pair of columns of the area, after setting the strips to
  // read.
  template <class UseBlock>
  void for_blocks(const Area& area, const UseBlock& use);
  void copy_columns(std::int64_t begin, std::int64_t end);
  // Copies rows, unless they are read in place.
  void copy_rows(std::int64_t begin, std::int64_t end);
  void read_rows(std::int64_t row);
  void read_copied_rows(std::int64_t row);
  // Sets the strips to read to pair `at` of the copied columns.
  void read_columns(std::int64_t at);
  // Computes the result at that pair of rows and of columns; `columns` is where the columns end.
  void compute_block(std::int64_t row, std::int64_t column, std::int64_t columns);
  // Adds a block's products to its sums, and runs the epilogue at the end of the inner axis.
  void add_block(std::int64_t row, std::int64_t column, const LongSums& sums);
  Result result_of(std::int64_t row, std::int64_t column) const;

  Bf16Unit unit_;
  UnitRegisters registers_;
  std::int64_t most_blocks_;  // per run
  Size chunk_;                // copied at a time
  Tensor copies_;
  char* second_;
  char* first_;
  Product product_{};  // the current run's part
  std::int64_t blocks_ = 0;
  std::int64_t second_tiles_ = 0;  // copied tiles of the second operand
  std::int64_t first_row_ = 0;     // first copied pair of rows
  std::array<Run, 2> runs_{};      // rows that are read in place, and those that are copied
};

}  // namespace mezzo::kernels::matmul_tiles
