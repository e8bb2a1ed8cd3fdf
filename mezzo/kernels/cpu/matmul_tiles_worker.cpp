#include "mezzo/kernels/cpu/matmul_tiles_worker.h"

#include <algorithm>

#include "mezzo/kernels/cpu/tiles-inl.h"

namespace mezzo::kernels::matmul_tiles {
namespace {

// Copies of the second operand that stay in the second-level cache.
constexpr std::int64_t kChunkBytes = 256 << 10;

// Tiles that are copied for that many blocks, or a part of them.
void set_copies(Strip& strip, const char* data, std::int64_t tiles, std::int64_t blocks) {
  strip.set(data, tiles > 1 ? data + blocks * kTileBytes : nullptr, kTileRowBytes, kTileBytes);
}

// The two by two tiles of a result in that pair of rows and of columns.
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

// Cache lines of the result come from afar: they are asked for while the block before is added
// up.
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

// Sums that need nothing done are stored where they belong.
bool is_stored_as_it_is(const Result& result, const Order& order) {
  return result.wide && result.bias == nullptr && !result.relu && !order.transposed &&
         result.rows == kPair && result.columns == kPair;
}

// A dense copy of some rows and columns of a result, which begin there.
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

}  // namespace

Product product_of(const Problem& problem, bool transposed, const Result& result,
                   std::int64_t index) {
  const Problem::Offsets at = problem.offsets(index);
  Operand a = problem.a;
  Operand b = problem.b;
  a.data += at.a;
  b.data += at.b;
  // Sums that are stored as they are must be in order, and so must the columns that get a bias.
  const bool any_order = transposed || (!result.wide && result.bias == nullptr);
  Product product{transposed ? b : a, transposed ? a : b, {.transposed = transposed}, result};
  product.order.interleaved = any_order && !product.second.inner_dense;
  const std::int64_t bytes = result.wide ? 4 : 2;
  product.result.data = static_cast<char*>(result.data) + index * a.size * b.size * bytes;
  return product;
}

Worker::Worker(Bf16Unit unit, std::int64_t blocks, std::int64_t columns)
    : unit_(unit),
      registers_(unit),
      blocks_(blocks),
      chunk_(std::clamp(kChunkBytes / (2 * blocks * kTileBytes), std::int64_t{1}, columns)),
      copies_(empty({2 * (chunk_ + 1) * blocks * kTileBytes}, DType::kU8)),
      second_(static_cast<char*>(copies_.mutable_raw_data())),
      first_(second_ + 2 * chunk_ * blocks * kTileBytes) {}

void Worker::compute(const Product& product, const Area& area) {
  product_ = product;
  for (std::int64_t begin = area.column; begin < area.end_column; begin += chunk_) {
    const std::int64_t end = std::min(begin + chunk_, area.end_column);
    pack_columns(begin, end);
    for (std::int64_t row = area.row; row < area.end_row; ++row) {
      read_rows(row);
      for (std::int64_t column = begin; column < end; ++column) {
        compute_block(row, column, column - begin, area.end_column);
      }
    }
  }
}

void Worker::compute_for(const Product& product, const Area& area, ResultRows::Use use) {
  const Tensor buffer = empty({kPair * kPair * chunk_}, DType::kF32);
  product_ = product;
  Result& strip = product_.result;
  strip.data = buffer.mutable_raw_data();
  for (std::int64_t begin = area.column; begin < area.end_column; begin += chunk_) {
    const std::int64_t end = std::min(begin + chunk_, area.end_column);
    pack_columns(begin, end);
    strip.columns = std::min(end * kPair, product.result.columns) - begin * kPair;
    strip.stride = strip.columns;
    for (std::int64_t row = area.row; row < area.end_row; ++row) {
      read_rows(row);
      strip.rows = std::min(product.result.rows - row * kPair, kPair);
      for (std::int64_t column = 0; column < end - begin; ++column) {
        compute_block(0, column, column, 0);
      }
      use_strip(strip, product.result, row * kPair, begin * kPair, use);
    }
  }
}

void Worker::pack_columns(std::int64_t begin, std::int64_t end) {
  const Operand& op = product_.second;
  second_tiles_ = std::min(2 * end, op.tiles()) - 2 * begin;
  const Form form = product_.order.interleaved ? Form::kInterleaved : Form::kSecond;
  pack(op, form, {2 * begin, second_tiles_, 0, blocks_}, second_);
}

// Rows that are whole and dense are read where they are, but for an incomplete last block, beyond
// which other numbers follow. A copy that lies closer together would be read a little faster, but
// costs as much as three readings.
void Worker::read_rows(std::int64_t row) {
  const Operand& op = product_.first;
  const std::int64_t tiles = std::min<std::int64_t>(2, op.tiles() - 2 * row);
  const bool whole = op.size >= row * kPair + tiles * kTileRows;
  const std::int64_t in_place = op.inner_dense && whole ? op.inner / kInner : 0;
  const std::int64_t line = in_place > 0 ? row * kPair : 0;
  const auto* data = reinterpret_cast<const char*>(op.data + line * op.stride);
  const std::int64_t pitch = 2 * op.stride;
  runs_[0].blocks = in_place;
  runs_[0].first.set(data, tiles > 1 ? data + kTileRows * pitch : nullptr, pitch, 2 * kInner);
  runs_[1].blocks = blocks_ - in_place;
  set_copies(runs_[1].first, first_, tiles, runs_[1].blocks);
  pack(op, Form::kFirst, {2 * row, tiles, in_place, blocks_}, first_);
}

void Worker::compute_block(std::int64_t row, std::int64_t column, std::int64_t at,
                           std::int64_t columns) {
  const std::int64_t tiles = std::min<std::int64_t>(2, second_tiles_ - 2 * at);
  const char* copies = second_ + 2 * at * blocks_ * kTileBytes;
  set_copies(runs_[0].second, copies, tiles, blocks_);
  set_copies(runs_[1].second, copies + runs_[0].blocks * kTileBytes, tiles, blocks_);
  const Order& order = product_.order;
  const Result& all = product_.result;
  const Result result = order.transposed ? part_of(all, column, row) : part_of(all, row, column);
  if (is_stored_as_it_is(result, order)) {
    if (column + 1 < columns) prefetch(part_of(all, row, column + 1));
    multiply(unit_, runs_, sums_at(static_cast<float*>(result.data), result.stride));
  } else {
    alignas(64) float buffer[4][kTileRows * kTileRows];
    const Sums sums{{{{buffer[0], buffer[1]}, {buffer[2], buffer[3]}}}, kTileRowBytes};
    multiply(unit_, runs_, sums);
    finish(sums, order, result);
  }
}

}  // namespace mezzo::kernels::matmul_tiles
