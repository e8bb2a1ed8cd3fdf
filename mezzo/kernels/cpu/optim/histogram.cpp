// Histograms of the exponents of values, for statistics of gradients, activations and weights.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "mezzo/kernels/cpu/optim/histogram.cpp"
#include <mutex>
#include <utility>

#include <hwy/foreach_target.h>

#include "mezzo/kernels/cpu/loops/layout.h"
#include "mezzo/kernels/cpu/loops/ranges.h"
#include "mezzo/kernels/cpu/optim/flat.h"
#include "mezzo/kernels/cpu/simd/simd-inl.h"
#include "mezzo/ops/update/flat_kernels.h"

HWY_BEFORE_NAMESPACE();
namespace mezzo::HWY_NAMESPACE {

using flat::Block;
using I32 = hn::RebindToSigned<F32>;

// Adjacent lanes count in different columns. Gradients crowd into few binades, and an increment of
// a counter has to wait for the one before it.
constexpr int kLogColumns = 2;
constexpr int kTableColumns = 1 << kLogColumns;
using Table = std::array<std::uint32_t, ExponentCounts::kCells * kTableColumns>;

// The start of each lane's row in the table. `magnitude`: the bits of |v|.
HWY_INLINE hn::Vec<I32> rows_of(hn::Vec<I32> magnitude) {
  const I32 i32;
  const auto fraction = hn::And(magnitude, hn::Set(i32, 0x7fffff));
  const auto field = hn::ShiftRight<23>(magnitude);
  auto cell = hn::ShiftLeft<3>(field);
  static_assert(ExponentCounts::kParts == 8);
  for (const std::int32_t begin : ExponentCounts::kPartBegins) {
    const auto reached = hn::Gt(fraction, hn::Set(i32, begin - 1));
    cell = hn::Sub(cell, hn::VecFromMask(i32, reached));  // a true lane is -1
  }
  return hn::ShiftLeft<kLogColumns>(cell);
}

HWY_INLINE hn::Vec<I32> magnitude_bits(F32Vec v) { return hn::BitCast(I32(), hn::Abs(v)); }

// v * factor|. A value that the product underflows to zero counts as subnormal, apart from zeros.
template <bool kScale>
HWY_INLINE hn::Vec<I32> scaled_magnitude(F32Vec v, F32Vec factor) {
  if constexpr (!kScale) return magnitude_bits(v);
  const auto nonzero = hn::Min(magnitude_bits(v), hn::Set(I32(), 1));
  return hn::Max(magnitude_bits(hn::Mul(v, factor)), nonzero);
}

template <bool kScale, class T>
void count_range(const T* data, std::int64_t count, float factor, Table& table) {
  alignas(64) std::int32_t rows[kMaxLanes];
  const auto by = hn::Set(F32(), factor);
  const auto count_lanes = [&](F32Vec v) HWY_ATTR {
    hn::Store(rows_of(scaled_magnitude<kScale>(v, by)), I32(), rows);
    // Written out: a loop takes twice as long.
    [&]<std::size_t... kLane>(std::index_sequence<kLane...>) {
      (++table[static_cast<std::size_t>(rows[kLane]) + kLane % kTableColumns], ...);
    }
    (std::make_index_sequence<kMaxLanes>());
  };
  const std::int64_t step = lanes();
  std::int64_t i = 0;
  for (; i + step <= count; i += step) count_lanes(load(data + i));
  if (i == count) return;
  count_lanes(load_part(data + i, count - i));
  // The rest of the vector was read as zeros.
  for (std::int64_t lane = count - i; lane < step; ++lane) {
    --table[static_cast<std::size_t>(lane % kTableColumns)];
  }
}

void add_table(const Table& table, ExponentCounts& counts) {
  for (std::size_t cell = 0; cell < ExponentCounts::kCells; ++cell) {
    std::int64_t sum = 0;
    for (std::size_t i = 0; i < kTableColumns; ++i) sum += table[cell * kTableColumns + i];
    counts.cells[cell] += sum;
  }
}

// Adds the elements [begin, end) of a block to the table.
void count_piece(const Block& block, std::int64_t begin, std::int64_t end, float factor,
                 Table& table) {
  kernels::visit_vector_dtype(block.dtype, [&]<class T>() {
    const T* data = static_cast<const T*>(block.data) + begin;
    if (factor == 1) {
      count_range<false>(data, end - begin, factor, table);
    } else {
      count_range<true>(data, end - begin, factor, table);
    }
  });
}

void count_exponents(std::span<const Block> blocks, float factor,
                     std::span<ExponentCounts> counts) {
  constexpr std::int64_t kPiece = 1 << 30;  // 32-bit counters hold this many, whatever the values
  std::mutex mutex;
  const auto count = [&](std::size_t index, std::int64_t begin, std::int64_t end) {
    for (; begin < end; begin += kPiece) {
      Table table{};
      count_piece(blocks[index], begin, std::min(begin + kPiece, end), factor, table);
      const std::lock_guard lock(mutex);
      add_table(table, counts[index]);
    }
  };
  kernels::for_ranges(blocks, kElementGrain, count);
}

}  // namespace mezzo::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace mezzo::flat::cpu {
namespace {

HWY_EXPORT(count_exponents);

}  // namespace

void count_exponents(std::span<const Block> blocks, float factor,
                     std::span<ExponentCounts> counts) {
  HWY_DYNAMIC_DISPATCH(count_exponents)(blocks, factor, counts);
}

}  // namespace mezzo::flat::cpu
#endif
