// Products of small bf16 matrices on the tile unit (AMX). Its registers are loaded from where the
// operands are and stored to where the sums are.
//
//      terms ->            columns ->                columns ->
//   +----------+        +--------------+          +--------------+
//   | 16 rows  |        | 16 rows of   |          | 16 rows of   |
//   | of 16    |   x    | 16 pairs,    |    ->    | 16 sums      |
//   | pairs    |        | a row a term |          | in f32       |
//   +----------+        +--------------+          +--------------+
#pragma once

#include <cstdint>

#include "mezzo/kernels/cpu/gemm/tiles-inl.h"

namespace mezzo::kernels::attention {

// sums [rows][columns] = (sums + ) a [rows][terms] b [terms][columns] for whole tiles: a term is a
// pair of bf16, whose products are added. Rows of a, b and sums lie so many bytes apart.
struct TileProduct {
  const char* a = nullptr;
  std::int64_t a_row = 0;
  const char* b = nullptr;
  std::int64_t b_row = 0;
  char* sums = nullptr;
  std::int64_t sums_row = 0;
  std::int64_t row_tiles = 0;     // of 16 rows
  std::int64_t term_tiles = 0;    // of 16 pairs
  std::int64_t column_tiles = 0;  // of 16 columns
  bool adds = false;              // to the earlier sums
};

// What computes such products.
struct TileUnit {
  void (*multiply)(const TileProduct& product) = nullptr;
  // Whether it uses the calling thread's TileRegisters, which must be configured.
  bool has_registers = false;
};

// The tile unit of this CPU; needs has_tiles().
const TileUnit& tile_unit();

// Computes kRows by kColumns tiles of sums, 1 or 2 each, from those numbers of a tile on. Registers
// 0 to 3 hold sums, 4 and 5 tiles of a, 6 and 7 tiles of b.
//
// This function and the next have no target of their own: inlined, they have their caller's.
template <int kRows, int kColumns, class Tiles>
[[gnu::always_inline]] inline void multiply_block(Tiles& tiles, const TileProduct& p,
                                                  std::int64_t row, std::int64_t column) {
  const char* a = p.a + row * kTileRows * p.a_row;
  const char* b = p.b + column * kTileRowBytes;
  char* const sums = p.sums + row * kTileRows * p.sums_row + column * kTileRowBytes;
  char* const lower = sums + kTileRows * p.sums_row;
  if (p.adds) {
    tiles.load(0, sums, p.sums_row);
    if (kColumns == 2) tiles.load(1, sums + kTileRowBytes, p.sums_row);
    if (kRows == 2) tiles.load(2, lower, p.sums_row);
    if (kRows == 2 && kColumns == 2) tiles.load(3, lower + kTileRowBytes, p.sums_row);
  } else {
    for (int sum = 0; sum < 4; ++sum) tiles.zero(sum);
  }
  for (std::int64_t k = 0; k < p.term_tiles; ++k) {
    tiles.load(4, a, p.a_row);
    tiles.load(6, b, p.b_row);
    if (kColumns == 2) tiles.load(7, b + kTileRowBytes, p.b_row);
    if (kRows == 2) tiles.load(5, a + kTileRows * p.a_row, p.a_row);
    tiles.add_products(0);
    if (kColumns == 2) tiles.add_products(1);
    if (kRows == 2) tiles.add_products(2);
    if (kRows == 2 && kColumns == 2) tiles.add_products(3);
    a += kTileRowBytes;
    b += kTileRows * p.b_row;
  }
  tiles.store(0, sums, p.sums_row);
  if (kColumns == 2) tiles.store(1, sums + kTileRowBytes, p.sums_row);
  if (kRows == 2) tiles.store(2, lower, p.sums_row);
  if (kRows == 2 && kColumns == 2) tiles.store(3, lower + kTileRowBytes, p.sums_row);
}

// Computes a product with the instructions of Tiles, which are all that a test has to replace. Tile
// registers are numbered 0 to 7:
//   zero(sum)                 sets a register to 0
//   load(tile, from, pitch)   loads 16 rows of 64 bytes that lie `pitch` bytes apart
//   store(sum, to, pitch)     stores them
//   add_products(sum)         adds the products of registers 4 + sum / 2 and 6 + sum % 2 to `sum`
// Terms of a sum are added in the order of tiles, whatever the number of rows and columns.
template <class Tiles>
[[gnu::always_inline]] inline void multiply_in_tiles(const TileProduct& p) {
  Tiles tiles;
  for (std::int64_t row = 0; row < p.row_tiles; row += 2) {
    const bool two_rows = row + 1 < p.row_tiles;
    for (std::int64_t column = 0; column < p.column_tiles; column += 2) {
      const bool two_columns = column + 1 < p.column_tiles;
      if (two_rows && two_columns) {
        multiply_block<2, 2>(tiles, p, row, column);
      } else if (two_rows) {
        multiply_block<2, 1>(tiles, p, row, column);
      } else if (two_columns) {
        multiply_block<1, 2>(tiles, p, row, column);
      } else {
        multiply_block<1, 1>(tiles, p, row, column);
      }
    }
  }
}

}  // namespace mezzo::kernels::attention
