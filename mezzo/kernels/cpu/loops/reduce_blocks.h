// The innermost loops of reductions: what depends on the type of the elements and on how wide the
// CPU's vectors are. How a tensor is walked is compiled once, in reduce.cpp.
#pragma once

#include <cstdint>
#include <limits>

#include "mezzo/core/dtype.h"

namespace mezzo::kernels {

enum class Reduction : std::uint8_t { kSum, kMax };

// What nothing is reduced to.
constexpr double start_of(Reduction reduction) {
  return reduction == Reduction::kSum ? 0.0 : -std::numeric_limits<double>::infinity();
}

// A NaN wins and stays, as in the comparison "is there anything larger" a NaN leaves unanswered.
constexpr double combine(Reduction reduction, double total, double v) {
  if (reduction == Reduction::kSum) return total + v;
  return v > total || v != v ? v : total;
}

struct ReduceBlocks {
  std::int64_t most = 0;  // numbers of a block
  // Reduces a block: at most `most` numbers, side by side.
  double (*row)(const void* x, std::int64_t count) = nullptr;
  // Combines rows of `cols` numbers, `stride` elements apart, into totals[0..cols).
  void (*columns)(const void* x, std::int64_t rows, std::int64_t stride, std::int64_t cols,
                  double* totals) = nullptr;
};

// Those of f32, bf16 or f16 for this CPU.
ReduceBlocks reduce_blocks(Reduction reduction, DType dtype);

}  // namespace mezzo::kernels
