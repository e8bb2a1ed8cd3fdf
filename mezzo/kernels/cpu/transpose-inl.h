// Transposing small square tiles. Included once per instruction set, like simd-inl.h.
#if defined(MEZZO_KERNELS_CPU_TRANSPOSE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MEZZO_KERNELS_CPU_TRANSPOSE_INL_H_
#undef MEZZO_KERNELS_CPU_TRANSPOSE_INL_H_
#else
#define MEZZO_KERNELS_CPU_TRANSPOSE_INL_H_
#endif

#include <algorithm>
#include <type_traits>

#include "mezzo/kernels/cpu/cast_rows.h"
#include "mezzo/kernels/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace mezzo::HWY_NAMESPACE {

using kernels::kPanel;
using kernels::kTile;

// panel[c * kPanel + r] = in[r * stride + c].
template <class T>
void transpose_part(const T* in, std::int64_t stride, std::int64_t rows, std::int64_t cols,
                    T* panel) {
  for (std::int64_t c = 0; c < cols; ++c) {
    for (std::int64_t r = 0; r < rows; ++r) panel[c * kPanel + r] = in[r * stride + c];
  }
}

#if HWY_TARGET == HWY_SCALAR

template <class T>
void transpose_tile(const T* in, std::int64_t stride, T* panel) {
  transpose_part(in, stride, kTile, kTile, panel);
}

#else

using Bits16 = hn::CappedTag<std::uint16_t, 8>;
using Bits32 = hn::CappedTag<std::uint32_t, 4>;
using Bits64 = hn::CappedTag<std::uint64_t, 2>;

// The elements of a and b, taken as numbers of D, alternating: the lower halves, the upper halves.
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

// 4 x 4 numbers of 32 bits.
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
  hn::StoreU(weave_upper(pair, a, c), d, out + kPanel);
  hn::StoreU(weave_lower(pair, b, e), d, out + 2 * kPanel);
  hn::StoreU(weave_upper(pair, b, e), d, out + 3 * kPanel);
}

// 4 rows of 8 numbers of 16 bits, as columns of 4: those of columns 2k and 2k + 1 in columns[k].
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

// 8 x 8 numbers of 16 bits.
HWY_INLINE void transpose_block(const std::uint16_t* in, std::int64_t stride, std::uint16_t* out) {
  const Bits64 half;
  hn::Vec<Bits16> upper[4];
  hn::Vec<Bits16> lower[4];
  weave_four_rows(in, stride, upper);
  weave_four_rows(in + 4 * stride, stride, lower);
  for (std::int64_t k = 0; k < 4; ++k) {
    hn::StoreU(weave_lower(half, upper[k], lower[k]), Bits16(), out + 2 * k * kPanel);
    hn::StoreU(weave_upper(half, upper[k], lower[k]), Bits16(), out + (2 * k + 1) * kPanel);
  }
}

// transpose_part() of kTile rows and columns, in registers.
template <class T>
void transpose_tile(const T* in, std::int64_t stride, T* panel) {
  using Bits = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint16_t>;
  constexpr std::int64_t kBlock = 16 / sizeof(Bits);
  const auto* from = reinterpret_cast<const Bits*>(in);
  auto* to = reinterpret_cast<Bits*>(panel);
  for (std::int64_t r = 0; r < kTile; r += kBlock) {
    for (std::int64_t c = 0; c < kTile; c += kBlock) {
      transpose_block(from + r * stride + c, stride, to + c * kPanel + r);
    }
  }
}

#endif

// transpose_part() in tiles; at most kPanel rows and kTile columns.
template <class T>
void transpose_panel(const T* in, std::int64_t stride, std::int64_t rows, std::int64_t cols,
                     T* panel) {
  for (std::int64_t r = 0; r < rows; r += kTile) {
    if (rows - r >= kTile && cols == kTile) {
      transpose_tile(in + r * stride, stride, panel + r);
    } else {
      transpose_part(in + r * stride, stride, std::min(kTile, rows - r), cols, panel + r);
    }
  }
}

}  // namespace mezzo::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
