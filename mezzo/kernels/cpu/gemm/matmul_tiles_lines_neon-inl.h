// Copying a part of an operand to a tile, on 64-bit Arm.
#pragma once

#include <cstring>

#include "mezzo/kernels/cpu/gemm/dots_neon-inl.h"
#include "mezzo/kernels/cpu/gemm/matmul_tiles_pack.h"

#if MEZZO_NEON_DOTS

namespace mezzo::kernels::matmul_tiles {

inline void copy_lines(const Part& part, std::int64_t stride, char* out) {
  for (std::int64_t i = 0; i < kTileRows; ++i, out += kTileRowBytes) {
    const auto bytes = i < part.lines ? static_cast<std::size_t>(2 * part.numbers) : 0;
    if (bytes > 0) std::memcpy(out, part.data + i * stride, bytes);
    std::memset(out + bytes, 0, kTileRowBytes - bytes);
  }
}

// A number of each of up to 32 lines, zeros behind the last one.
class LineNumbers {
 public:
  // `from` is null where the lines have ended.
  LineNumbers(const BFloat16* from, std::int64_t lines, std::int64_t most) : at_(copy_) {
    if (from != nullptr && lines == most) {
      at_ = reinterpret_cast<const std::uint16_t*>(from);
    } else if (from != nullptr) {
      std::memcpy(copy_, from, static_cast<std::size_t>(2 * lines));
    }
  }
  LineNumbers(const LineNumbers&) = delete;
  LineNumbers& operator=(const LineNumbers&) = delete;
  uint16x8_t load(std::int64_t line) const { return vld1q_u16(at_ + line); }

 private:
  std::uint16_t copy_[2 * kTileRows] = {};
  const std::uint16_t* at_;
};

// Has the numbers 2 p and 2 p + 1 of every line used, for row p of a tile.
template <class Use>
void for_pairs(const Part& part, std::int64_t stride, std::int64_t most_lines, const Use& use) {
  for (std::int64_t p = 0; p < kTileRows; ++p) {
    const BFloat16* const from = part.data + 2 * p * stride;
    const std::int64_t left = part.numbers - 2 * p;
    const LineNumbers lower(left > 0 ? from : nullptr, part.lines, most_lines);
    const LineNumbers upper(left > 1 ? from + stride : nullptr, part.lines, most_lines);
    use(p * kTileRowBytes, lower, upper);
  }
}

// Row p of the tile: the numbers 2 p and 2 p + 1 of every line.
inline void weave_lines(const Part& part, std::int64_t stride, char* out) {
  for_pairs(part, stride, kTileRows, [&](std::int64_t at, const auto& lower, const auto& upper) {
    auto* const to = reinterpret_cast<std::uint16_t*>(out + at);
    for (std::int64_t i = 0; i < kTileRows; i += 8) {
      vst2q_u16(to + 2 * i, {lower.load(i), upper.load(i)});
    }
  });
}

// The same for up to 32 lines, the even and the odd ones of them.
inline void weave_turns(const Part& part, std::int64_t stride, char* even, char* odd) {
  for_pairs(part, stride, 2 * kTileRows,
            [&](std::int64_t at, const auto& lower, const auto& upper) {
              for (std::int64_t i = 0; i < 2 * kTileRows; i += 8) {
                const uint16x8_t a = lower.load(i);
                const uint16x8_t b = upper.load(i);
                vst1q_u16(reinterpret_cast<std::uint16_t*>(even + at) + i, vtrn1q_u16(a, b));
                vst1q_u16(reinterpret_cast<std::uint16_t*>(odd + at) + i, vtrn2q_u16(a, b));
              }
            });
}

inline void weave_whole_turns(const BFloat16* from, std::int64_t stride, char* even, char* odd) {
  weave_turns({from, 2 * kTileRows, kInner}, stride, even, odd);
}

}  // namespace mezzo::kernels::matmul_tiles

#endif
