// The innermost step of a bf16 product: two by two tiles, and the epilogue of their sums.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "mezzo/core/half.h"
#include "mezzo/kernels/cpu/gemm/tiles.h"

namespace mezzo::kernels::matmul_tiles {

// One or two tiles of an operand, and the tiles that follow them along the inner axis.
struct Strip {
  std::array<const char*, 2> tiles{};  // the second is null if there is only one
  std::int64_t pitch = 0;              // bytes from row to row of a tile
  std::int64_t step = 0;               // bytes from tile to tile

  // Sets field by field. Copying a strip that was just written with wider loads would wait for all
  // earlier stores, which include results on their way to memory.
  void set(const char* first, const char* second, std::int64_t row_pitch, std::int64_t tile_step) {
    tiles[0] = first;
    tiles[1] = second;
    pitch = row_pitch;
    step = tile_step;
  }
};
struct Run {
  Strip first, second;
  std::int64_t blocks = 0;
};

// Where the sums of two by two tiles are written; `pitch` is in bytes from row to row.
struct Sums {
  std::array<std::array<float*, 2>, 2> tiles{};
  std::int64_t pitch = 0;
  bool begun = false;  // the memory holds sums to continue; otherwise they begin at zero
};

// Adds up the products of all runs on that unit. Needs the unit's registers (UnitRegisters).
void multiply(Bf16Unit unit, std::span<const Run> runs, const Sums& sums);
// multiply() on the vector unit.
void multiply_by_dots(std::span<const Run> runs, const Sums& sums);

// A part of the result, and the bias of its columns.
struct Result {
  void* data = nullptr;
  std::int64_t stride = 0;  // elements from row to row
  bool wide = false;        // f32, otherwise bf16
  std::int64_t rows = 0;    // at most 32
  std::int64_t columns = 0;
  const void* bias = nullptr;
  bool wide_bias = false;
  bool relu = false;  // applied to the sums with their bias
};

// The order of the sums in the tiles.
struct Order {
  bool transposed = false;   // rows are columns of the result
  bool interleaved = false;  // the second operand was packed in Form::kInterleaved
};

// The epilogue: adds the bias, applies ReLU and rounds the sums to the result. A transposed order
// is undone in place.
void finish(const Sums& sums, const Order& order, const Result& result);

}  // namespace mezzo::kernels::matmul_tiles
