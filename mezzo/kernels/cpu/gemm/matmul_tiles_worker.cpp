#include "mezzo/kernels/cpu/gemm/matmul_tiles_worker.h"

#include <algorithm>

#include "mezzo/core/math.h"
#include "mezzo/core/scratch.h"
#include "mezzo/kernels/cpu/gemm/tiles-inl.h"
#include "mezzo/kernels/cpu/loops/cache_sizes.h"

namespace mezzo::kernels::matmul_tiles {
namespace {

// The size of a copy of the second operand that stays in the second-level cache while rows stream
// past.
constexpr std::int64_t chunk_bytes(Bf16Unit unit) {
  return unit == Bf16Unit::kTiles ? kCachesWithTiles.second / 2 : kCachesWithVectors.second / 4;
}

// Points the strip to tiles that were copied for `blocks` blocks, or to a part of them.
void set_copies(Strip& strip, const char* data, std::int64_t tiles, std::int64_t blocks) {
  strip.set(data, tiles > 1 ? data + blocks * kTileBytes : nullptr, kTileRowBytes, kTileBytes);
}

// The result's two by two tiles at that pair of rows and of columns.
Result part_of(const Result& all, std::int64_t row, std::int64_t column) {
  Result result = all;
  const std::int64_t offset = row * kPair * result.stride + column * kPair;
  const std::int64_t bytes = result.wide ? 4 : 2;
  result.data = static_cast<char*>(result.data) + offset * bytes;
  result.rows = std::min(result.rows - row * kPair, kPair);
  result.columns = std::min(result.columns - column * kPair, kPair);
  if (result.bias != nullptr) {
    result.bias =
        static_cast<const char*>(result.bias) + column * kPair * (result.wide_bias ? 4 : 2);
  }
  return result;
}

// Prefetches the lines of the result while the block before is summed: they come from memory.
void prefetch(const Result& result) {
  const float* row = static_cast<const float*>(result.data);
  for (std::int64_t r = 0; r < kPair; ++r, row += result.stride) {
    __builtin_prefetch(row, 1);
    __builtin_prefetch(row + kTileRows, 1);
  }
}

Sums sums_at(float* out, std::int64_t stride) {
  float* below = out + kTileRows * stride;
  return {{{{out, out + kTileRows}, {below, below + kTileRows}}},
          stride * static_cast<std::int64_t>(sizeof(float))};
}

// Whether sums need no epilogue and can be stored in the result directly.
bool is_stored_as_it_is(const Result& result, const Order& order) {
  return result.wide && result.bias == nullptr && !result.relu && !order.transposed &&
         result.rows == kPair && result.columns == kPair;
}

// Hands out a dense copy of some rows and columns of a result, which begin at `row` and `column`.
void use_strip(const Result& strip, const Result& all, std::int64_t row, std::int64_t column,
               ResultRows::Use use) {
  const auto* const values = static_cast<const float*>(strip.data);
  const bool is_one_run = strip.columns == all.columns;
  const std::int64_t runs = is_one_run ? 1 : strip.rows;
  const std::int64_t numbers = is_one_run ? strip.rows * strip.columns : strip.columns;
  for (std::int64_t i = 0; i < runs; ++i) {
    const std::int64_t at = (row + i) * all.columns + column;
    use(at, at + numbers, values + i * numbers);
  }
}

// Blocks per run; runs are of about equal length.
std::int64_t blocks_of_run(const Operand& op) {
  const std::int64_t all = op.blocks();
  const std::int64_t runs = ceil_div(all, kMostBlocks);
  return ceil_div(all, runs);
}

// How much is copied at a time. Rows that meet all columns at once are read soon and stay in the
// cache. Otherwise columns are copied anew for every group of rows, so the group has to be large.
Worker::Size chunk_of(Bf16Unit unit, const Operand& first, std::int64_t blocks,
                      const Worker::Size& area) {
  constexpr std::int64_t kFewRows = kCachesWithTiles.second / 4;
  constexpr std::int64_t kManyRows = kCachesWithTiles.second;
  const std::int64_t pair = 2 * blocks * kTileBytes;
  const std::int64_t columns = std::clamp<std::int64_t>(chunk_bytes(unit) / pair, 1, area.columns);
  const std::int64_t bytes = columns == area.columns ? kFewRows : kManyRows;
  // Rows that are read in place may still need a copy of their last block, one pair at a time.
  const std::int64_t rows =
      first.inner_dense ? 1 : std::clamp<std::int64_t>(bytes / pair, 1, area.rows);
  return {.rows = rows, .columns = columns};
}

}  // namespace

LongSums::LongSums(const Area& area)
    : area_(area),
      values_(scratch({area.end_row - area.row, area.end_column - area.column, kPair * kPair},
                      DType::kF32)) {}

Sums LongSums::at(std::int64_t row, std::int64_t column) const {
  constexpr std::int64_t kTile = kTileRows * kTileRows;
  const std::int64_t columns = area_.end_column - area_.column;
  const std::int64_t block = (row - area_.row) * columns + column - area_.column;
  float* const tiles = values_.mutable_data<float>() + block * kPair * kPair;
  return {{{{tiles, tiles + kTile}, {tiles + 2 * kTile, tiles + 3 * kTile}}}, kTileRowBytes, begun};
}

Product product_of(const Problem& problem, bool transposed, const Result& result,
                   std::int64_t index) {
  const Problem::Offsets at = problem.offsets(index);
  Operand a = problem.a;
  Operand b = problem.b;
  a.data += at.a;
  b.data += at.b;
  // Columns may be interleaved only if the epilogue can undo it: not for sums that are stored
  // directly, nor where columns get a bias.
  const bool any_order = transposed || (!result.wide && result.bias == nullptr);
  Product product{transposed ? b : a, transposed ? a : b, {.transposed = transposed}, result};
  product.order.interleaved = any_order && !product.second.inner_dense;
  const std::int64_t bytes = result.wide ? 4 : 2;
  product.result.data = static_cast<char*>(result.data) + index * a.size * b.size * bytes;
  return product;
}

Worker::Worker(Bf16Unit unit, const Operand& first, const Size& area)
    : unit_(unit),
      registers_(unit),
      most_blocks_(blocks_of_run(first)),
      chunk_(chunk_of(unit, first, most_blocks_, area)),
      copies_(
          scratch({2 * (chunk_.columns + chunk_.rows) * most_blocks_ * kTileBytes}, DType::kU8)),
      second_(static_cast<char*>(copies_.mutable_raw_data())),
      first_(second_ + 2 * chunk_.columns * most_blocks_ * kTileBytes) {}

void Worker::compute(const Product& product, const Area& area) {
  const std::int64_t blocks = product.first.blocks();
  if (blocks <= most_blocks_) {
    begin_run(product, 0);
    for_blocks(area, [&](std::int64_t row, std::int64_t column) {
      compute_block(row, column, area.end_column);
    });
    return;
  }
  LongSums sums(area);
  for (std::int64_t block = 0; block < blocks; block += most_blocks_) {
    begin_run(product, block);
    sums.begun = block > 0;
    sums.ends = block + most_blocks_ >= blocks;
    for_blocks(area, [&](std::int64_t row, std::int64_t column) { add_block(row, column, sums); });
  }
}

void Worker::compute_for(const Product& product, const Area& area, ResultRows::Use use) {
  const Tensor buffer = empty({kPair * kPair * chunk_.columns}, DType::kF32);
  begin_run(product, 0);
  Result& strip = product_.result;
  strip.data = buffer.mutable_raw_data();
  for_chunks(area, [&](const Area& chunk) {
    const std::int64_t first = chunk.column * kPair;
    strip.columns = std::min(chunk.end_column * kPair, product.result.columns) - first;
    strip.stride = strip.columns;
    for (std::int64_t row = chunk.row; row < chunk.end_row; ++row) {
      read_rows(row);
      strip.rows = std::min(product.result.rows - row * kPair, kPair);
      for (std::int64_t at = 0; at < chunk.end_column - chunk.column; ++at) {
        read_columns(at);
        compute_block(0, at, 0);
      }
      use_strip(strip, product.result, row * kPair, first, use);
    }
  });
}

void Worker::begin_run(const Product& product, std::int64_t block) {
  product_ = product;
  for (Operand* const op : {&product_.first, &product_.second}) {
    const std::int64_t begin = block * kInner;
    op->data += op->inner_dense ? begin : begin * op->stride;
    op->inner = std::min(op->inner - begin, most_blocks_ * kInner);
  }
  blocks_ = product_.first.blocks();
}

template <class UseChunk>
void Worker::for_chunks(const Area& area, const UseChunk& use) {
  const bool in_place = product_.first.inner_dense;
  const std::int64_t rows = in_place ? area.end_row - area.row : chunk_.rows;
  std::int64_t copied = -1;
  for (std::int64_t row = area.row; row < area.end_row; row += rows) {
    const std::int64_t end_row = std::min(row + rows, area.end_row);
    copy_rows(row, end_row);
    for (std::int64_t column = area.column; column < area.end_column; column += chunk_.columns) {
      const std::int64_t end_column = std::min(column + chunk_.columns, area.end_column);
      if (column != copied) copy_columns(column, end_column);
      copied = column;
      use(Area{row, end_row, column, end_column});
    }
  }
}

template <class UseBlock>
void Worker::for_blocks(const Area& area, const UseBlock& use) {
  for_chunks(area, [&](const Area& chunk) {
    for (std::int64_t row = chunk.row; row < chunk.end_row; ++row) {
      read_rows(row);
      for (std::int64_t column = chunk.column; column < chunk.end_column; ++column) {
        read_columns(column - chunk.column);
        use(row, column);
      }
    }
  });
}

void Worker::copy_columns(std::int64_t begin, std::int64_t end) {
  const Operand& op = product_.second;
  second_tiles_ = std::min(2 * end, op.tiles()) - 2 * begin;
  const Form form = product_.order.interleaved ? Form::kInterleaved : Form::kSecond;
  pack(op, form, {2 * begin, second_tiles_, 0, blocks_}, second_);
}

void Worker::copy_rows(std::int64_t begin, std::int64_t end) {
  const Operand& op = product_.first;
  if (op.inner_dense) return;
  first_row_ = begin;
  pack(op, Form::kFirst, {2 * begin, std::min(2 * end, op.tiles()) - 2 * begin, 0, blocks_},
       first_);
}

// Whole, dense rows are read in place, except an incomplete last block, which is followed by other
// data. A copy that lies closer together would be read a little faster, but costs as much as three
// reads.
void Worker::read_rows(std::int64_t row) {
  const Operand& op = product_.first;
  if (!op.inner_dense) return read_copied_rows(row);
  const std::int64_t tiles = std::min<std::int64_t>(2, op.tiles() - 2 * row);
  const bool whole = op.size >= row * kPair + tiles * kTileRows;
  const std::int64_t in_place = whole ? op.inner / kInner : 0;
  const std::int64_t line = in_place > 0 ? row * kPair : 0;
  const auto* data = reinterpret_cast<const char*>(op.data + line * op.stride);
  const std::int64_t pitch = 2 * op.stride;
  runs_[0].blocks = in_place;
  runs_[0].first.set(data, tiles > 1 ? data + kTileRows * pitch : nullptr, pitch, 2 * kInner);
  runs_[1].blocks = blocks_ - in_place;
  set_copies(runs_[1].first, first_, tiles, runs_[1].blocks);
  pack(op, Form::kFirst, {2 * row, tiles, in_place, blocks_}, first_);
}

void Worker::read_copied_rows(std::int64_t row) {
  const std::int64_t tiles = std::min<std::int64_t>(2, product_.first.tiles() - 2 * row);
  set_copies(runs_[0].first, first_ + 2 * (row - first_row_) * blocks_ * kTileBytes, tiles,
             blocks_);
  runs_[0].blocks = blocks_;
  runs_[1].blocks = 0;
}

void Worker::read_columns(std::int64_t at) {
  const std::int64_t tiles = std::min<std::int64_t>(2, second_tiles_ - 2 * at);
  const char* copies = second_ + 2 * at * blocks_ * kTileBytes;
  set_copies(runs_[0].second, copies, tiles, blocks_);
  set_copies(runs_[1].second, copies + runs_[0].blocks * kTileBytes, tiles, blocks_);
}

Result Worker::result_of(std::int64_t row, std::int64_t column) const {
  const Result& all = product_.result;
  return product_.order.transposed ? part_of(all, column, row) : part_of(all, row, column);
}

void Worker::compute_block(std::int64_t row, std::int64_t column, std::int64_t columns) {
  const Order& order = product_.order;
  const Result result = result_of(row, column);
  if (is_stored_as_it_is(result, order)) {
    if (column + 1 < columns) prefetch(result_of(row, column + 1));
    multiply(unit_, runs_, sums_at(static_cast<float*>(result.data), result.stride));
  } else {
    alignas(64) float buffer[4][kTileRows * kTileRows];
    const Sums sums{{{{buffer[0], buffer[1]}, {buffer[2], buffer[3]}}}, kTileRowBytes};
    multiply(unit_, runs_, sums);
    finish(sums, order, result);
  }
}

void Worker::add_block(std::int64_t row, std::int64_t column, const LongSums& sums) {
  const Sums block = sums.at(row, column);
  multiply(unit_, runs_, block);
  if (sums.ends) finish(block, product_.order, result_of(row, column));
}

}  // namespace mezzo::kernels::matmul_tiles
