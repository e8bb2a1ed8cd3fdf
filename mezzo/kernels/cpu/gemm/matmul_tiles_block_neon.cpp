// matmul_tiles_block.h on 64-bit Arm, by dot products.
#include <algorithm>
#include <cstring>

#include "mezzo/kernels/cpu/gemm/dots_neon-inl.h"
#include "mezzo/kernels/cpu/gemm/matmul_tiles_block.h"

#if MEZZO_NEON_DOTS

namespace mezzo::kernels::matmul_tiles {
namespace {

constexpr int kRows = 4;  // of a tile at a time

// Adds up rows [row, row + kRows) of a tile of the first operand, by one tile of the second.
MEZZO_NEON_DOT_TARGET void multiply_rows(std::span<const Run> runs, std::size_t tile,
                                         std::size_t column, std::int64_t row, const Sums& out) {
  const auto place = [&](int r, int v) {
    auto* const line = reinterpret_cast<char*>(out.tiles[tile][column]) + (row + r) * out.pitch;
    return reinterpret_cast<float*>(line) + 4 * v;
  };
  NeonSums<kRows> sums;
  sums.clear();
  for (int r = 0; out.begun && r < kRows; ++r) {
    for (int v = 0; v < kTileVectors; ++v) sums.at[r][v] = vld1q_f32(place(r, v));
  }
  for (const Run& run : runs) {
    const char* rows = run.first.tiles[tile] + row * run.first.pitch;
    const char* columns = run.second.tiles[column];
    for (std::int64_t block = 0; block < run.blocks; ++block) {
      sums.add(rows, run.first.pitch, columns);
      rows += run.first.step;
      columns += run.second.step;
    }
  }
  for (int r = 0; r < kRows; ++r) {
    for (int v = 0; v < kTileVectors; ++v) vst1q_f32(place(r, v), sums.at[r][v]);
  }
}

// One row of at most 32 columns.
struct Row {
  float32x4_t at[2 * kTileVectors];
};

Row load_bias(const Result& result) {
  float bias[kTileRows * 2] = {};
  for (std::int64_t c = 0; result.bias != nullptr && c < result.columns; ++c) {
    bias[c] = result.wide_bias ? static_cast<const float*>(result.bias)[c]
                               : static_cast<float>(static_cast<const BFloat16*>(result.bias)[c]);
  }
  Row row;
  for (int v = 0; v < 2 * kTileVectors; ++v) row.at[v] = vld1q_f32(bias + 4 * v);
  return row;
}

// As the relu of its own: a NaN is not <= 0 and stays, and -0 becomes 0.
float32x4_t relu(float32x4_t v) {
  const float32x4_t zero = vdupq_n_f32(0);
  return vbslq_f32(vcleq_f32(v, zero), zero, v);
}

// `interleaved`: the even columns are in the first half, the odd ones in the second.
void store_row(const Row& row, const Result& result, std::int64_t at, bool interleaved) {
  const auto columns = static_cast<std::size_t>(result.columns);
  if (result.wide) {
    std::memcpy(static_cast<float*>(result.data) + at, row.at, columns * sizeof(float));
    return;
  }
  std::uint16_t bits[kTileRows * 2];
  for (int v = 0; v < kTileVectors; ++v) {
    const uint16x4_t left = rounded_to_bf16(row.at[v]);
    const uint16x4_t right = rounded_to_bf16(row.at[kTileVectors + v]);
    if (interleaved) {
      vst2_u16(bits + 8 * v, {left, right});
    } else {
      vst1_u16(bits + 4 * v, left);
      vst1_u16(bits + kTileRows + 4 * v, right);
    }
  }
  std::memcpy(static_cast<BFloat16*>(result.data) + at, bits, columns * sizeof(bits[0]));
}

Row row_of(const float* left, const float* right, const Row& bias, bool with_relu) {
  Row row;
  for (int v = 0; v < kTileVectors; ++v) {
    row.at[v] = vaddq_f32(vld1q_f32(left + 4 * v), bias.at[v]);
    row.at[kTileVectors + v] = vaddq_f32(vld1q_f32(right + 4 * v), bias.at[kTileVectors + v]);
  }
  for (int v = 0; with_relu && v < 2 * kTileVectors; ++v) row.at[v] = relu(row.at[v]);
  return row;
}

void transpose(float* tile) {
  auto* const bytes = reinterpret_cast<char*>(tile);
  transpose_tile(bytes, kTileRowBytes, bytes);
}

void write(const Sums& sums, const Order& order, const Result& result) {
  const Row bias = load_bias(result);
  const bool turns = order.transposed && order.interleaved && result.rows > kTileRows;
  const bool columns = order.interleaved && !order.transposed && result.columns > kTileRows;
  for (std::int64_t i = 0; i < 2 && i * kTileRows < result.rows; ++i) {
    const float* left = sums.tiles[order.transposed ? 0 : i][order.transposed ? i : 0];
    const float* right = sums.tiles[order.transposed ? 1 : i][order.transposed ? i : 1];
    if (result.columns <= kTileRows) right = left;  // which is not there, and not read below
    const std::int64_t rows =
        turns ? (result.rows + 1 - i) / 2 : std::min(result.rows - i * kTileRows, kTileRows);
    for (std::int64_t r = 0; r < rows; ++r) {
      const Row row = row_of(left + kTileRows * r, right + kTileRows * r, bias, result.relu);
      const std::int64_t at = turns ? 2 * r + i : i * kTileRows + r;
      store_row(row, result, at * result.stride, columns);
    }
  }
}

}  // namespace

void multiply(Bf16Unit /*unit*/, std::span<const Run> runs, const Sums& sums) {
  multiply_by_dots(runs, sums);
}

void multiply_by_dots(std::span<const Run> runs, const Sums& sums) {
  const auto are_there = [](const Strip& strip, std::size_t tile) {
    return strip.tiles[tile] != nullptr;
  };
  for (std::size_t tile = 0; tile < 2 && are_there(runs[0].first, tile); ++tile) {
    for (std::size_t column = 0; column < 2 && are_there(runs[0].second, column); ++column) {
      for (std::int64_t row = 0; row < kTileRows; row += kRows) {
        multiply_rows(runs, tile, column, row, sums);
      }
    }
  }
}

void finish(const Sums& sums, const Order& order, const Result& result) {
  for (std::int64_t i = 0; order.transposed && i * kTileRows < result.columns; ++i) {
    for (std::int64_t j = 0; j * kTileRows < result.rows; ++j) transpose(sums.tiles[i][j]);
  }
  write(sums, order, result);
}

}  // namespace mezzo::kernels::matmul_tiles

#endif
