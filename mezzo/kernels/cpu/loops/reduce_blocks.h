// The innermost loops of reductions, which depend on the element type and the vector width.
// reduce.cpp walks the tensor and is compiled once.
#pragma once

#include <cstdint>
#include <limits>

#include "mezzo/core/dtype.h"

namespace mezzo::kernels {

enum class Reduction : std::uint8_t { kSum, kMax };

// The reduction of no elements.
constexpr double start_of(Reduction reduction) {
  return reduction == Reduction::kSum ? 0.0 : -std::numeric_limits<double>::infinity();
}

// Combines two values. A NaN wins and stays, whichever side it is on.
constexpr double combine(Reduction reduction, double total, double v) {
  if (reduction == Reduction::kSum) return total + v;
  return v > total || v != v ? v : total;
}

struct ReduceBlocks {
  std::int64_t most = 0;  // elements per block
  // Reduces a block: at most `most` contiguous elements.
  double (*row)(const void* x, std::int64_t count) = nullptr;
  // Combines rows of `cols` elements, `stride` elements apart, into totals[0..cols).
  void (*columns)(const void* x, std::int64_t rows, std::int64_t stride, std::int64_t cols,
                  double* totals) = nullptr;
};

// The loops for f32, bf16 or f16 on this CPU.
ReduceBlocks reduce_blocks(Reduction reduction, DType dtype);

}  // namespace mezzo::kernels
