#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "mezzo/kernels/cpu/loops/cast_rows.cpp"
#include "mezzo/kernels/cpu/loops/cast_rows.h"

#include <algorithm>

#include <hwy/foreach_target.h>

#include "mezzo/kernels/cpu/simd/float8-inl.h"
#include "mezzo/kernels/cpu/simd/simd-inl.h"
#include "mezzo/kernels/cpu/simd/transpose-inl.h"
#include "mezzo/kernels/cpu/simd/transpose_bytes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace mezzo::HWY_NAMESPACE {
namespace {

template <class In, class Out>
void convert_row(const void* from, void* to, std::int64_t n) {
  const auto* in = static_cast<const In*>(from);
  auto* out = static_cast<Out*>(to);
  const std::int64_t i = for_whole_vectors(
      0, n, [&](std::int64_t k, auto asks) HWY_ATTR { store(load(in + k, asks), out + k, asks); });
  if (i < n) store_part(load_part(in + i, n - i), out + i, n - i);
}

template <class T>
void copy_row(const void* from, void* to, std::int64_t n) {
  std::memcpy(to, from, static_cast<std::size_t>(n) * sizeof(T));
}

template <class T>
void transpose(const void* in, std::int64_t stride, std::int64_t rows, std::int64_t cols,
               void* panel) {
  using kernels::kPanel;
  using kernels::kTile;
  for (std::int64_t r = 0; r < rows; r += kTile) {
    const T* const from = static_cast<const T*>(in) + r * stride;
    T* const to = static_cast<T*>(panel) + r;
    if (rows - r < kTile || cols < kTile) {
      transpose_part<kPanel>(from, stride, std::min(kTile, rows - r), cols, to);
    } else if constexpr (sizeof(T) == 1) {
      transpose_bytes<kTile, kPanel>(from, stride, to);
    } else {
      transpose_square<kTile, kPanel>(from, stride, to);
    }
  }
}

}  // namespace

kernels::ConvertRow row_converter(DType in, DType out) {
  kernels::ConvertRow result = nullptr;
  kernels::visit_cast_dtype(in, [&]<class In>() {
    kernels::visit_cast_dtype(out, [&]<class Out>() {
      if constexpr (std::is_same_v<In, Out>) {
        result = copy_row<In>;
      } else {
        result = convert_row<In, Out>;
      }
    });
  });
  return result;
}

kernels::TransposePanel panel_transposer(DType dtype) {
  switch (size_of(dtype)) {
    case 1: return transpose<std::uint8_t>;
    case 2: return transpose<std::uint16_t>;
    default: return transpose<std::uint32_t>;
  }
}

}  // namespace mezzo::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace mezzo::kernels {

HWY_EXPORT(row_converter);
HWY_EXPORT(panel_transposer);

ConvertRow row_converter(DType in, DType out) {
  return HWY_DYNAMIC_DISPATCH(row_converter)(in, out);
}

TransposePanel panel_transposer(DType dtype) {
  return HWY_DYNAMIC_DISPATCH(panel_transposer)(dtype);
}

}  // namespace mezzo::kernels
#endif
