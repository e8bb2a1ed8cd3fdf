// What one thread does for a bf16 product: copies of the operands, and the sums of their tiles.
#pragma once

#include <array>
#include <cstdint>

#include "mezzo/core/tensor.h"
#include "mezzo/kernels/cpu/gemm/matmul_tiles_block.h"
#include "mezzo/kernels/cpu/gemm/matmul_tiles_problem.h"
#include "mezzo/kernels/cpu/gemm/tiles.h"
#include "mezzo/ops/fusion/result_rows.h"

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

// Numbers of the inner axis that are added up in one run: blocks of kInner. Copies of longer lines
// would leave little of the second-level cache to each other.
inline constexpr std::int64_t kMostBlocks = 64;

// The sums of an area between runs.
class LongSums {
 public:
  explicit LongSums(const Area& area);
  // Of that pair of rows and of columns.
  Sums at(std::int64_t row, std::int64_t column) const;

  bool begun = false, ends = false;  // there were runs before this one; there are none behind it

 private:
  Area area_;
  Tensor values_;
};

// One thread's copies, and what it does with them.
class Worker {
 public:
  struct Size {
    std::int64_t rows = 1, columns = 1;  // in pairs of tiles
  };
  // For products whose first operand is like that one, of areas of at most that size.
  Worker(Bf16Unit unit, const Operand& first, const Size& area);

  void compute(const Product& product, const Area& area);
  // Of a product in that order whose result is f32 without a bias: computes it in memory of its own
  // and has it used, strip by strip of a pair of rows. Of sums in one run only.
  void compute_for(const Product& product, const Area& area, ResultRows::Use use);

 private:
  // Goes on with a part of the inner axis: `most_blocks_` from `block` on.
  void begin_run(const Product& product, std::int64_t block);
  // Has chunks of an area used whose rows and columns are copied.
  template <class UseChunk>
  void for_chunks(const Area& area, const UseChunk& use);
  // Has all pairs of rows and of columns of an area used, which are read then.
  template <class UseBlock>
  void for_blocks(const Area& area, const UseBlock& use);
  void copy_columns(std::int64_t begin, std::int64_t end);
  // Unless they are read where they are.
  void copy_rows(std::int64_t begin, std::int64_t end);
  void read_rows(std::int64_t row);
  void read_copied_rows(std::int64_t row);
  // The columns of the copy `at`.
  void read_columns(std::int64_t at);
  // The results in that pair of rows and of columns, of `columns` pairs.
  void compute_block(std::int64_t row, std::int64_t column, std::int64_t columns);
  // Adds to their sums, and finishes them at the end of the inner axis.
  void add_block(std::int64_t row, std::int64_t column, const LongSums& sums);
  Result result_of(std::int64_t row, std::int64_t column) const;

  Bf16Unit unit_;
  UnitRegisters registers_;
  std::int64_t most_blocks_;  // of a run
  Size chunk_;                // that is copied at a time
  Tensor copies_;
  char* second_;
  char* first_;
  Product product_{};  // its part in the run
  std::int64_t blocks_ = 0;
  std::int64_t second_tiles_ = 0;  // that are copied
  std::int64_t first_row_ = 0;     // of those that are
  std::array<Run, 2> runs_{};      // the rows where they are, and those that are copied
};

}  // namespace mezzo::kernels::matmul_tiles
