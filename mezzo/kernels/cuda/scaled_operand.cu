#include "mezzo/core/math.h"
#include "mezzo/kernels/cuda/scaled_operand.cuh"

namespace mezzo::kernels::cuda {
namespace {

constexpr int kSide = 128;                 // bytes of a tile's side
constexpr int kWords = kSide / 4;          // the same in words of four bytes
constexpr int kWarps = kThreads / kWords;  // a warp reads or writes the words of a row

// Four rows of four bytes each become their four columns.
__device__ inline void turn(unsigned (&rows)[4]) {
  constexpr unsigned kEven = 0x00ff00ffU;
  // Two rows at a time: columns 0 and 2, then 1 and 3.
  const unsigned upper_02 = (rows[0] & kEven) | (rows[1] & kEven) << 8;
  const unsigned upper_13 = (rows[0] >> 8 & kEven) | (rows[1] & ~kEven);
  const unsigned lower_02 = (rows[2] & kEven) | (rows[3] & kEven) << 8;
  const unsigned lower_13 = (rows[2] >> 8 & kEven) | (rows[3] & ~kEven);
  rows[0] = (upper_02 & 0xffffU) | lower_02 << 16;
  rows[1] = (upper_13 & 0xffffU) | lower_13 << 16;
  rows[2] = upper_02 >> 16 | (lower_02 & 0xffff0000U);
  rows[3] = upper_13 >> 16 | (lower_13 & 0xffff0000U);
}

// Memory is read and written in whole rows of a tile. A row r of the tile lies in shared memory at
// r % 4 * 32 + r / 4: then neither the rows that a warp writes nor the columns that it reads have
// two words in one bank.
__global__ void transpose_codes_kernel(std::int64_t rows, std::int64_t columns,
                                       const unsigned* from, unsigned* to) {
  __shared__ unsigned tile[kSide][kWords + 1];
  const std::int64_t across = (columns + kSide - 1) / kSide;
  const std::int64_t down = (rows + kSide - 1) / kSide;
  const int warp = threadIdx.x / kWords;
  const int lane = threadIdx.x % kWords;
  for (std::int64_t t = blockIdx.x; t < across * down; t += gridDim.x) {
    const std::int64_t row = t / across * kSide;
    const std::int64_t column = t % across * kSide;
#pragma unroll 4
    for (int r = warp; r < kSide; r += kWarps) {
      if (row + r < rows && column + 4 * lane < columns) {
        tile[r % 4 * 32 + r / 4][lane] = from[((row + r) * columns + column) / 4 + lane];
      }
    }
    __syncthreads();
    for (int word = warp; word < kWords; word += kWarps) {
      if (row + 4 * lane < rows && column + 4 * word < columns) {
        unsigned bytes[4];
#pragma unroll
        for (int i = 0; i < 4; ++i) bytes[i] = tile[i * 32 + lane][word];
        turn(bytes);
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          to[((column + 4 * word + i) * rows + row) / 4 + lane] = bytes[i];
        }
      }
    }
    __syncthreads();  // all have read the tile before the next one is put there
  }
}

constexpr std::int64_t kTileLines = 128;
constexpr std::int64_t kTileBlocks = 4;

__global__ void tile_scales_kernel(std::int64_t lines, std::int64_t blocks, bool sums_rows,
                                   std::int64_t count, const std::uint8_t* scales,
                                   std::uint8_t* out) {
  const std::int64_t across = (blocks + kTileBlocks - 1) / kTileBlocks;
  for (std::int64_t i = grid_first(); i < count; i += grid_step()) {
    const std::int64_t tile = i / (kTileLines * kTileBlocks);
    const auto within = static_cast<int>(i % (kTileLines * kTileBlocks));
    const std::int64_t line = tile / across * kTileLines + within / 16 + within % 16 / 4 * 32;
    const std::int64_t block = tile % across * kTileBlocks + within % 4;
    const bool exists = line < lines && block < blocks;
    out[i] = exists ? scales[sums_rows ? block * lines + line : line * blocks + block] : 0;
  }
}

}  // namespace

Tensor transposed_codes(const Launch& launch, const Tensor& codes) {
  const std::int64_t rows = codes.size(0);
  const std::int64_t columns = codes.size(1);
  const Tensor result = empty({columns, rows}, codes.dtype(), Format::kContiguous, codes.device());
  const std::int64_t tiles =
      ceil_div(rows, std::int64_t{kSide}) * ceil_div(columns, std::int64_t{kSide});
  transpose_codes_kernel<<<launch.blocks_for(tiles * kThreads), kThreads, 0, launch.stream()>>>(
      rows, columns, in<unsigned>(codes), out<unsigned>(result));
  check_launch("transpose_codes_kernel");
  return result;
}

Tensor tiled_scales(const Launch& launch, const Tensor& scales, bool sums_rows) {
  const std::int64_t lines = scales.size(sums_rows ? 1 : 0);
  const std::int64_t blocks = scales.size(sums_rows ? 0 : 1);
  const std::int64_t count =
      ceil_div(lines, kTileLines) * kTileLines * ceil_div(blocks, kTileBlocks) * kTileBlocks;
  const Tensor result = empty({count}, DType::kU8, Format::kContiguous, scales.device());
  tile_scales_kernel<<<launch.blocks_for(count), kThreads, 0, launch.stream()>>>(
      lines, blocks, sums_rows, count, in<std::uint8_t>(scales), out<std::uint8_t>(result));
  check_launch("tile_scales_kernel");
  return result;
}

}  // namespace mezzo::kernels::cuda
