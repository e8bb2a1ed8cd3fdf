// Transposes small squares; results have rows of kRow elements. Included once per instruction set,
// like simd-inl.h.
#if defined(MEZZO_KERNELS_CPU_TRANSPOSE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MEZZO_KERNELS_CPU_TRANSPOSE_INL_H_
#undef MEZZO_KERNELS_CPU_TRANSPOSE_INL_H_
#else
#define MEZZO_KERNELS_CPU_TRANSPOSE_INL_H_
#endif

#include <cstdint>
#include <type_traits>

#include "mezzo/kernels/cpu/simd/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace mezzo::HWY_NAMESPACE {

// out[c * kRow + r] = in[r * stride + c].
template <std::int64_t kRow, class T>
void transpose_part(const T* in, std::int64_t stride, std::int64_t rows, std::int64_t cols,
                    T* out) {
  for (std::int64_t c = 0; c < cols; ++c) {
    for (std::int64_t r = 0; r < rows; ++r) out[c * kRow + r] = in[r * stride + c];
  }
}

#if HWY_TARGET == HWY_SCALAR

template <std::int64_t kSide, std::int64_t kRow, class T>
void transpose_square(const T* in, std::int64_t stride, T* out) {
  transpose_part<kRow>(in, stride, kSide, kSide, out);
}

#else

using Bits16 = hn::CappedTag<std::uint16_t, 8>;
using Bits32 = hn::CappedTag<std::uint32_t, 4>;
using Bits64 = hn::CappedTag<std::uint64_t, 2>;

// Interleaves the elements of a and b, taken as elements of D: of the lower halves, or of the upper
// halves.
template <class D, class V>
HWY_INLINE V weave_lower(D d, V a, V b) {
  const hn::DFromV<V> whole;
  return hn::BitCast(whole, hn::InterleaveLower(d, hn::BitCast(d, a), hn::BitCast(d, b)));
}
template <class D, class V>
HWY_INLINE V weave_upper(D d, V a, V b) {
  const hn::DFromV<V> whole;
  return hn::BitCast(whole, hn::InterleaveUpper(d, hn::BitCast(d, a), hn::BitCast(d, b)));
}

// Transposes 4 x 4 elements of 32 bits.
template <std::int64_t kRow>
HWY_INLINE void transpose_block(const std::uint32_t* in, std::int64_t stride, std::uint32_t* out) {
  const Bits32 d;
  const Bits64 pair;
  const auto r0 = hn::LoadU(d, in);
  const auto r1 = hn::LoadU(d, in + stride);
  const auto r2 = hn::LoadU(d, in + 2 * stride);
  const auto r3 = hn::LoadU(d, in + 3 * stride);
  const auto a = weave_lower(d, r0, r1);
  const auto b = weave_upper(d, r0, r1);
  const auto c = weave_lower(d, r2, r3);
  const auto e = weave_upper(d, r2, r3);
  hn::StoreU(weave_lower(pair, a, c), d, out);
  hn::StoreU(weave_upper(pair, a, c), d, out + kRow);
  hn::StoreU(weave_lower(pair, b, e), d, out + 2 * kRow);
  hn::StoreU(weave_upper(pair, b, e), d, out + 3 * kRow);
}

// Transposes 4 rows of 8 elements of 16 bits to columns of 4; columns[k] holds columns 2k and 2k +
// 1.
HWY_INLINE void weave_four_rows(const std::uint16_t* in, std::int64_t stride,
                                hn::Vec<Bits16> (&columns)[4]) {
  const Bits16 d;
  const Bits32 pair;
  const auto r0 = hn::LoadU(d, in);
  const auto r1 = hn::LoadU(d, in + stride);
  const auto r2 = hn::LoadU(d, in + 2 * stride);
  const auto r3 = hn::LoadU(d, in + 3 * stride);
  const auto a = weave_lower(d, r0, r1);
  const auto b = weave_upper(d, r0, r1);
  const auto c = weave_lower(d, r2, r3);
  const auto e = weave_upper(d, r2, r3);
  columns[0] = weave_lower(pair, a, c);
  columns[1] = weave_upper(pair, a, c);
  columns[2] = weave_lower(pair, b, e);
  columns[3] = weave_upper(pair, b, e);
}

// Transposes 8 x 8 elements of 16 bits.
template <std::int64_t kRow>
HWY_INLINE void transpose_block(const std::uint16_t* in, std::int64_t stride, std::uint16_t* out) {
  const Bits64 half;
  hn::Vec<Bits16> upper[4];
  hn::Vec<Bits16> lower[4];
  weave_four_rows(in, stride, upper);
  weave_four_rows(in + 4 * stride, stride, lower);
  for (std::int64_t k = 0; k < 4; ++k) {
    hn::StoreU(weave_lower(half, upper[k], lower[k]), Bits16(), out + 2 * k * kRow);
    hn::StoreU(weave_upper(half, upper[k], lower[k]), Bits16(), out + (2 * k + 1) * kRow);
  }
}

// transpose_part() for kSide rows and columns, in registers.
template <std::int64_t kSide, std::int64_t kRow, class T>
void transpose_square(const T* in, std::int64_t stride, T* out) {
  using Bits = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint16_t>;
  constexpr std::int64_t kBlock = 16 / sizeof(Bits);
  const auto* from = reinterpret_cast<const Bits*>(in);
  auto* to = reinterpret_cast<Bits*>(out);
  for (std::int64_t r = 0; r < kSide; r += kBlock) {
    for (std::int64_t c = 0; c < kSide; c += kBlock) {
      transpose_block<kRow>(from + r * stride + c, stride, to + c * kRow + r);
    }
  }
}

#endif

}  // namespace mezzo::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
