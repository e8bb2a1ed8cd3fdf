// Copies of the operands of bf16 products in the layout that the tile unit reads.
#pragma once

#include <cstdint>

#include "mezzo/core/half.h"
#include "mezzo/core/math.h"

namespace mezzo::kernels::matmul_tiles {

// Elements of the inner axis, along which products are summed, per tile.
inline constexpr std::int64_t kInner = 32;

// One operand: `size` lines (rows of a first operand, columns of a second) of `inner` elements.
struct Operand {
  const BFloat16* data = nullptr;
  std::int64_t size = 0;
  std::int64_t inner = 0;
  std::int64_t stride = 0;   // from line to line, or from element to element of a line
  bool inner_dense = false;  // the elements of a line are contiguous; otherwise the lines are

  std::int64_t tiles() const { return (size + 15) / 16; }
  std::int64_t blocks() const { return ceil_div(inner, kInner); }
};

// The layout in which the unit reads an operand.
enum class Form : unsigned char {
  kFirst,   // the rows of a tile are lines
  kSecond,  // the rows of a tile are pairs of elements of every line
  // Like kSecond, but the even ones of 32 lines are in one tile, the odd ones in the next; fast
  // where lines lie side by side. A last tile without a partner is kSecond.
  kInterleaved,
};

// A tile's part of an operand, and its size.
struct Part {
  const BFloat16* data = nullptr;
  std::int64_t lines = 0;
  std::int64_t numbers = 0;  // elements of each line, at most 32
};

// Which tiles pack() copies: the blocks [begin, end) of `tiles` tiles from `first` on, in the order
// [tile][block]. Lines and elements beyond the operand are zero.
struct Range {
  std::int64_t first = 0, tiles = 0;
  std::int64_t begin = 0, end = 0;
};
void pack(const Operand& operand, Form form, const Range& range, char* out);

}  // namespace mezzo::kernels::matmul_tiles
