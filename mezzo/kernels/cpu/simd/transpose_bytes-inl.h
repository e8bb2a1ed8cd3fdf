// Transposes squares of elements of one byte; results have rows of kRow elements. Included once per
// instruction set, like simd-inl.h.
#if defined(MEZZO_KERNELS_CPU_TRANSPOSE_BYTES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MEZZO_KERNELS_CPU_TRANSPOSE_BYTES_INL_H_
#undef MEZZO_KERNELS_CPU_TRANSPOSE_BYTES_INL_H_
#else
#define MEZZO_KERNELS_CPU_TRANSPOSE_BYTES_INL_H_
#endif

#include <cstdint>

#include "mezzo/kernels/cpu/simd/transpose-inl.h"

HWY_BEFORE_NAMESPACE();
namespace mezzo::HWY_NAMESPACE {

#if HWY_TARGET == HWY_SCALAR

// out[c * kRow + r] = in[r * stride + c] for kSide rows and columns.
template <std::int64_t kSide, std::int64_t kRow>
void transpose_bytes(const std::uint8_t* in, std::int64_t stride, std::uint8_t* out) {
  transpose_part<kRow>(in, stride, kSide, kSide, out);
}

#else

// Transposes 16 x 16 bytes. Number the 256 bytes of 16 vectors with 8 bits: the upper 4 are the
// row, the lower 4 the column. Interleaving vector i with vector i + 8 rotates these bits by one
// place. Four rounds exchange row and column.
template <std::int64_t kRow>
HWY_INLINE void transpose_byte_block(const std::uint8_t* in, std::int64_t stride,
                                     std::uint8_t* out) {
  using Bits8 = hn::CappedTag<std::uint8_t, 16>;
  constexpr std::int64_t kBlock = 16;
  const Bits8 d;
  hn::Vec<Bits8> rows[kBlock];
  for (std::int64_t i = 0; i < kBlock; ++i) rows[i] = hn::LoadU(d, in + i * stride);
  for (int round = 0; round < 4; ++round) {
    hn::Vec<Bits8> woven[kBlock];
    for (std::int64_t i = 0; i < kBlock / 2; ++i) {
      woven[2 * i] = weave_lower(d, rows[i], rows[i + kBlock / 2]);
      woven[2 * i + 1] = weave_upper(d, rows[i], rows[i + kBlock / 2]);
    }
    for (std::int64_t i = 0; i < kBlock; ++i) rows[i] = woven[i];
  }
  for (std::int64_t i = 0; i < kBlock; ++i) hn::StoreU(rows[i], d, out + i * kRow);
}

// out[c * kRow + r] = in[r * stride + c] for kSide rows and columns, a multiple of 16.
template <std::int64_t kSide, std::int64_t kRow>
void transpose_bytes(const std::uint8_t* in, std::int64_t stride, std::uint8_t* out) {
  static_assert(kSide % 16 == 0);
  for (std::int64_t r = 0; r < kSide; r += 16) {
    for (std::int64_t c = 0; c < kSide; c += 16) {
      transpose_byte_block<kRow>(in + r * stride + c, stride, out + c * kRow + r);
    }
  }
}

#endif

}  // namespace mezzo::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
