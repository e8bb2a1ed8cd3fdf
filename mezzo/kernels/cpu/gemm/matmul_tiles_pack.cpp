#include "mezzo/kernels/cpu/gemm/matmul_tiles_pack.h"

#include <algorithm>

#include "mezzo/kernels/cpu/gemm/matmul_tiles_lines-inl.h"
#include "mezzo/kernels/cpu/gemm/matmul_tiles_lines_neon-inl.h"

namespace mezzo::kernels::matmul_tiles {

#if MEZZO_TILES || MEZZO_NEON_DOTS

namespace {

Part part_of(const Operand& operand, std::int64_t tile, std::int64_t block, std::int64_t lines) {
  const std::int64_t line = tile * kTileRows;
  const std::int64_t number = block * kInner;
  const std::int64_t offset =
      operand.inner_dense ? line * operand.stride + number : number * operand.stride + line;
  return {operand.data + offset, std::min(operand.size - line, lines),
          std::min(operand.inner - number, kInner)};
}

void pack_tile(const Operand& operand, Form form, std::int64_t tile, std::int64_t block,
               char* out) {
  const Part part = part_of(operand, tile, block, kTileRows);
  const bool whole = part.lines == kTileRows && part.numbers == kInner;
  if (!operand.inner_dense) {
    weave_lines(part, operand.stride, out);
    if (form == Form::kFirst) transpose_tile(out, kTileRowBytes, out);
  } else if (form != Form::kFirst && whole) {
    transpose_tile(reinterpret_cast<const char*>(part.data), 2 * operand.stride, out);
  } else {
    copy_lines(part, operand.stride, out);
    if (form != Form::kFirst) transpose_tile(out, kTileRowBytes, out);
  }
}

void pack_turns(const Operand& operand, std::int64_t tile, std::int64_t block, char* even,
                char* odd) {
  const Part part = part_of(operand, tile, block, 2 * kTileRows);
  if (part.lines == 2 * kTileRows && part.numbers == kInner) {
    weave_whole_turns(part.data, operand.stride, even, odd);
  } else {
    weave_turns(part, operand.stride, even, odd);
  }
}

}  // namespace

void pack(const Operand& operand, Form form, const Range& range, char* out) {
  const std::int64_t pitch = (range.end - range.begin) * kTileBytes;
  const auto pack_pair = [&](std::int64_t tile, std::int64_t block) {
    char* to = out + tile * pitch + (block - range.begin) * kTileBytes;
    const bool two = tile + 1 < range.tiles;
    if (two && form == Form::kInterleaved && !operand.inner_dense) {
      pack_turns(operand, range.first + tile, block, to, to + pitch);
      return;
    }
    pack_tile(operand, form, range.first + tile, block, to);
    if (two) pack_tile(operand, form, range.first + tile + 1, block, to + pitch);
  };
  // Pack in memory order, which the hardware prefetcher can follow: line after line, or element
  // after element of all lines.
  if (operand.inner_dense) {
    for (std::int64_t tile = 0; tile < range.tiles; tile += 2) {
      for (std::int64_t block = range.begin; block < range.end; ++block) pack_pair(tile, block);
    }
  } else {
    for (std::int64_t block = range.begin; block < range.end; ++block) {
      for (std::int64_t tile = 0; tile < range.tiles; tile += 2) pack_pair(tile, block);
    }
  }
}

#else

void pack(const Operand&, Form, const Range&, char*) {}

#endif

}  // namespace mezzo::kernels::matmul_tiles
