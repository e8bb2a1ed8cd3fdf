// Copies of the operands of bf16 products in the form that the tile unit reads.
#pragma once

#include <cstdint>

#include "mezzo/core/half.h"

namespace mezzo::kernels::matmul_tiles {

// Of the inner axis, along which products are added up, one tile holds 32 numbers.
inline constexpr std::int64_t kInner = 32;

// One operand: `size` lines (rows of a first operand, columns of a second) of `inner` numbers.
struct Operand {
  const BFloat16* data = nullptr;
  std::int64_t size = 0;
  std::int64_t inner = 0;
  std::int64_t stride = 0;   // from line to line, or from number to number of a line
  bool inner_dense = false;  // the numbers of a line are consecutive, otherwise the lines are

  std::int64_t tiles() const { return (size + 15) / 16; }
  std::int64_t blocks() const { return (inner + kInner - 1) / kInner; }
};

// What the unit wants of its factors.
enum class Form : unsigned char {
  kFirst,        // the rows of a tile are lines
  kSecond,       // the rows of a tile are pairs of numbers of every line
  kInterleaved,  // the same with the even ones of 32 lines in one tile, the odd ones in the next:
                 // quick where lines lie side by side. A last tile without a next one is kSecond
};

// A tile's part of an operand, and how much of it there is.
struct Part {
  const BFloat16* data = nullptr;
  std::int64_t lines = 0;
  std::int64_t numbers = 0;  // of each line, at most 32
};

// Copies the blocks [begin, end) of `tiles` tiles from `first` on, [tile][block]. Lines and numbers
// beyond the operand are zero.
struct Range {
  std::int64_t first = 0, tiles = 0;
  std::int64_t begin = 0, end = 0;
};
void pack(const Operand& operand, Form form, const Range& range, char* out);

}  // namespace mezzo::kernels::matmul_tiles
