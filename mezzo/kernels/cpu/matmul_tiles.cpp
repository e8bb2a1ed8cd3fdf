#include "mezzo/kernels/cpu/matmul_tiles.h"

#include <algorithm>
#include <optional>

#include "mezzo/core/parallel.h"
#include "mezzo/kernels/cpu/matmul_tiles_block.h"
#include "mezzo/kernels/cpu/matmul_tiles_problem.h"
#include "mezzo/kernels/cpu/tiles-inl.h"
#include "mezzo/kernels/cpu/tiles.h"
#include "mezzo/ops/matmul_attrs.h"

namespace mezzo::kernels {
namespace {

using matmul_tiles::describe;
using matmul_tiles::finish;
using matmul_tiles::Form;
using matmul_tiles::kInner;
using matmul_tiles::multiply;
using matmul_tiles::Operand;
using matmul_tiles::Order;
using matmul_tiles::pack;
using matmul_tiles::Plan;
using matmul_tiles::plan_for;
using matmul_tiles::Problem;
using matmul_tiles::Result;
using matmul_tiles::Run;
using matmul_tiles::Strip;
using matmul_tiles::Sums;

// Two tiles each way are computed at a time.
constexpr std::int64_t kPair = 2 * kTileRows;

// One product: the rows of `first` by those of `second`.
struct Product {
  Operand first, second;
  Order order;    // transposed: the result is that of second and first
  Result result;  // all of it
};

// A part of the product, in pairs of tiles.
struct Area {
  std::int64_t row = 0, end_row = 0;
  std::int64_t column = 0, end_column = 0;
};

// One thread's copies, and what it does with them.
class Worker {
 public:
  // For products of that inner size with at most `columns` pairs of columns at once.
  Worker(Bf16Unit unit, std::int64_t blocks, std::int64_t columns)
      : unit_(unit),
        registers_(unit),
        blocks_(blocks),
        chunk_(std::clamp(kChunkBytes / (2 * blocks * kTileBytes), std::int64_t{1}, columns)),
        copies_(empty({2 * (chunk_ + 1) * blocks * kTileBytes}, DType::kU8)),
        second_(static_cast<char*>(copies_.mutable_raw_data())),
        first_(second_ + 2 * chunk_ * blocks * kTileBytes) {}

  void compute(const Product& product, const Area& area) {
    product_ = &product;
    columns_ = area.end_column;
    for (std::int64_t begin = area.column; begin < area.end_column; begin += chunk_) {
      const std::int64_t end = std::min(begin + chunk_, area.end_column);
      const std::int64_t tiles = std::min(2 * end, product.second.tiles()) - 2 * begin;
      const Form form = product.order.interleaved ? Form::kInterleaved : Form::kSecond;
      pack(product.second, form, {2 * begin, tiles, 0, blocks_}, second_);
      for (std::int64_t row = area.row; row < area.end_row; ++row) {
        read_rows(row);
        for (std::int64_t column = begin; column < end; ++column) {
          compute_block(row, column, column - begin);
        }
      }
    }
  }

 private:
  // Copies of the second operand that stay in the second-level cache.
  static constexpr std::int64_t kChunkBytes = 256 << 10;

  // Rows that are whole and dense are read where they are, but for an incomplete last block, beyond
  // which other numbers follow. A copy that lies closer together would be read a little faster, but
  // costs as much as three readings.
  void read_rows(std::int64_t row) {
    const Operand& op = product_->first;
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

  // Tiles that are copied for that many blocks, or a part of them.
  static void set_copies(Strip& strip, const char* data, std::int64_t tiles, std::int64_t blocks) {
    strip.set(data, tiles > 1 ? data + blocks * kTileBytes : nullptr, kTileRowBytes, kTileBytes);
  }

  void compute_block(std::int64_t row, std::int64_t column, std::int64_t at) {
    const std::int64_t tiles = std::min<std::int64_t>(2, product_->second.tiles() - 2 * column);
    const char* copies = second_ + 2 * at * blocks_ * kTileBytes;
    set_copies(runs_[0].second, copies, tiles, blocks_);
    set_copies(runs_[1].second, copies + runs_[0].blocks * kTileBytes, tiles, blocks_);
    const Result result =
        product_->order.transposed ? part_of_result(column, row) : part_of_result(row, column);
    const bool in_place = result.wide && result.bias == nullptr && !product_->order.transposed &&
                          result.rows == kPair && result.columns == kPair;
    if (in_place) {
      if (column + 1 < columns_) prefetch(part_of_result(row, column + 1));
      multiply(unit_, runs_, sums_at(static_cast<float*>(result.data), result.stride));
    } else {
      alignas(64) float buffer[4][kTileRows * kTileRows];
      const Sums sums{{{{buffer[0], buffer[1]}, {buffer[2], buffer[3]}}}, kTileRowBytes};
      multiply(unit_, runs_, sums);
      finish(sums, product_->order, result);
    }
  }

  // Cache lines of the result come from afar: they are asked for while the block before is added
  // up.
  static void prefetch(const Result& result) {
    const float* row = static_cast<const float*>(result.data);
    for (std::int64_t r = 0; r < kPair; ++r, row += result.stride) {
      __builtin_prefetch(row, 1);
      __builtin_prefetch(row + kTileRows, 1);
    }
  }

  static Sums sums_at(float* out, std::int64_t stride) {
    float* below = out + kTileRows * stride;
    return {{{{out, out + kTileRows}, {below, below + kTileRows}}},
            stride * static_cast<std::int64_t>(sizeof(float))};
  }

  Result part_of_result(std::int64_t row, std::int64_t column) const {
    Result result = product_->result;
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

  Bf16Unit unit_;
  UnitRegisters registers_;
  std::int64_t blocks_;
  std::int64_t chunk_;  // pairs of columns
  Tensor copies_;
  char* second_;
  char* first_;
  const Product* product_ = nullptr;
  std::int64_t columns_ = 0;   // where the area ends
  std::array<Run, 2> runs_{};  // the rows where they are, and those that are copied
};

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

void run(const Problem& problem, Bf16Unit unit, const Result& result) {
  const Plan plan = plan_for(problem, unit, num_threads());
  const Operand& first = plan.transposed ? problem.b : problem.a;
  const Operand& second = plan.transposed ? problem.a : problem.b;
  const std::int64_t rows = (first.size + kPair - 1) / kPair;
  const std::int64_t columns = (second.size + kPair - 1) / kPair;
  const std::int64_t most_columns = (columns + plan.column_parts - 1) / plan.column_parts;
  const std::int64_t parts = plan.row_parts * plan.column_parts;
  parallel_for(
      problem.batch.numel() * parts, plan.grain, [&](std::int64_t begin, std::int64_t end) {
        Worker worker(unit, first.blocks(), most_columns);
        for (std::int64_t i = begin; i < end; ++i) {
          const std::int64_t row = i % parts / plan.column_parts;
          const std::int64_t column = i % parts % plan.column_parts;
          worker.compute(
              product_of(problem, plan.transposed, result, i / parts),
              {rows * row / plan.row_parts, rows * (row + 1) / plan.row_parts,
               columns * column / plan.column_parts, columns * (column + 1) / plan.column_parts});
        }
      });
}

Problem matmul_problem(const KernelArgs& args) {
  const auto& attrs = args.attrs<MatmulAttrs>();
  return describe(args.input(0), attrs.transpose_a, args.input(1), attrs.transpose_b,
                  args.output());
}

Problem linear_problem(const KernelArgs& args) {
  return describe(args.input(0), false, args.input(1), true, args.output());
}

void run(Problem problem, const KernelArgs& args, Bf16Unit unit) {
  problem.a.data = args.input(0).data<BFloat16>();
  problem.b.data = args.input(1).data<BFloat16>();
  const Tensor& out = args.output();
  Result result{.data = out.mutable_raw_data(),
                .stride = problem.b.size,
                .wide = out.dtype() == DType::kF32,
                .rows = problem.a.size,
                .columns = problem.b.size};
  if (args.has(2)) {
    result.bias = args.input(2).raw_data();
    result.wide_bias = args.input(2).dtype() == DType::kF32;
  }
  run(problem, unit, result);
}

// oneDNN is as fast (cubes of 384 to 1024 took 0.95 to 1.15 of its time here, 4096 x 256 x 256 took
// 0.98) where the arithmetic takes long beside the call, and its copies of both operands are read
// often. It is not where one size is small: 0.5 to 1 of its time at 64, 0.75 to 1 at 128.
bool is_large(const Problem& p) {
  constexpr std::int64_t kNarrow = 128;
  constexpr std::int64_t kMost = std::int64_t{256} * 256 * 256;
  return std::min({p.a.size, p.b.size, p.a.inner}) > kNarrow &&
         p.a.size * p.b.size > kMost / p.a.inner;
}

// Whole lines are copied, one or two tiles at a time, however long they are. If no operand can be
// read where it is, one is copied again for every part of the other that fits the cache.
bool is_long(const Problem& p) {
  constexpr std::int64_t kMost = 16384;
  constexpr std::int64_t kMostOfCopies = 1024;
  return p.a.inner > (p.a.inner_dense || p.b.inner_dense ? kMost : kMostOfCopies);
}

// What dot products are faster at than oneDNN, which is at their full rate, too, once its call has
// begun: operands whose lines are read along, as those of linear() are (0.4 to 1 of its time;
// others 1 to 1.1), in tiles that are not mostly empty, for these cost as many products as full
// ones.
bool suits_dots(const Problem& p) {
  const std::int64_t whole =
      p.a.tiles() * p.b.tiles() * kTileRows * kTileRows * p.a.blocks() * kInner;
  return p.a.inner_dense && p.b.inner_dense && whole <= 2 * p.a.size * p.b.size * p.a.inner;
}

Support supports_result(const KernelArgs& args) {
  const auto fits = [](const Tensor& tensor) {
    return tensor.is_dense() && (tensor.dtype() == DType::kF32 || tensor.dtype() == DType::kBf16);
  };
  if (!fits(args.output())) return Support::no("the result is not a dense block of f32 or bf16");
  if (args.has(2) && !fits(args.input(2))) {
    return Support::no("the bias is not a dense block of f32 or bf16");
  }
  return Support::yes();
}

Support supports(const KernelArgs& args, Problem (*as_problem)(const KernelArgs&)) {
  const std::optional<Bf16Unit> unit = bf16_unit();
  if (!unit) return Support::no("this CPU has neither AMX nor a fast bf16 dot product");
  for (std::size_t i = 0; i < 2; ++i) {
    if (args.input(i).dtype() != DType::kBf16) return Support::no("only bf16 is multiplied so");
    if (args.input(i).numel() == 0) return Support::no("an input has no elements");
  }
  const Support result = supports_result(args);
  if (!result) return result;
  const Problem problem = as_problem(args);
  if (!problem.supported) return Support::no("an operand is dense along neither axis");
  if (is_large(problem)) return Support::no("oneDNN is as fast for large products");
  if (is_long(problem)) return Support::no("oneDNN is faster for long sums");
  if (unit == Bf16Unit::kDots && !suits_dots(problem)) {
    return Support::no("oneDNN's dot products are as fast");
  }
  return Support::yes();
}

}  // namespace

Support supports_matmul_tiles(const KernelArgs& args) { return supports(args, matmul_problem); }
Support supports_linear_tiles(const KernelArgs& args) { return supports(args, linear_problem); }
void run_matmul_tiles(const KernelArgs& args) { run_matmul_tiles(args, *bf16_unit()); }
void run_linear_tiles(const KernelArgs& args) { run_linear_tiles(args, *bf16_unit()); }
void run_matmul_tiles(const KernelArgs& args, Bf16Unit unit) {
  run(matmul_problem(args), args, unit);
}
void run_linear_tiles(const KernelArgs& args, Bf16Unit unit) {
  run(linear_problem(args), args, unit);
}

}  // namespace mezzo::kernels
