// Two by two tiles of a bf16 product, and how their sums become the result.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "mezzo/core/half.h"
#include "mezzo/kernels/cpu/gemm/tiles.h"

namespace mezzo::kernels::matmul_tiles {

// One or two tiles of an operand, and those that follow them along the inner axis.
struct Strip {
  std::array<const char*, 2> tiles{};  // the second is null if there is one only
  std::int64_t pitch = 0;              // bytes from row to row of a tile
  std::int64_t step = 0;               // bytes from tile to tile

  // Field by field: to copy a strip that was just written with wider loads would wait for all
  // stores before, which are results on their way to memory.
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

// Where the sums of two by two tiles are written, and the bytes from row to row there.
struct Sums {
  std::array<std::array<float*, 2>, 2> tiles{};
  std::int64_t pitch = 0;
  bool begun = false;  // they are there and go on, instead of beginning at zero
};

// Adds up the products of all runs; needs the unit's registers.
void multiply(Bf16Unit unit, std::span<const Run> runs, const Sums& sums);
// The same by the vector unit.
void multiply_by_dots(std::span<const Run> runs, const Sums& sums);

// A part of the result, and what is added to its columns.
struct Result {
  void* data = nullptr;
  std::int64_t stride = 0;  // elements from row to row
  bool wide = false;        // f32, otherwise bf16
  std::int64_t rows = 0;    // at most 32
  std::int64_t columns = 0;
  const void* bias = nullptr;
  bool wide_bias = false;
  bool relu = false;  // of the sums with their bias
};

// How the sums lie in the tiles.
struct Order {
  bool transposed = false;   // rows are columns of the result
  bool interleaved = false;  // the second operand was Form::kInterleaved
};

// Adds the bias, applies ReLU and rounds the sums to the result. Transposes them in place.
void finish(const Sums& sums, const Order& order, const Result& result);

}  // namespace mezzo::kernels::matmul_tiles
