// The vectorised parts of a cast: rows, and tiles that are transposed. cast.cpp finds where they
// lie.
#pragma once

#include <cstdint>

#include "mezzo/core/dtype.h"

namespace mezzo::kernels {

// True for the dtypes that vectorised casts read and write: the floats of at most 32 bits. The
// other vector kernels compute in fewer (is_vector_dtype()).
inline bool is_cast_dtype(DType dtype) {
  return dtype == DType::kF32 || is_lower(dtype) || is_eight_bit(dtype);
}

// Calls function.operator()<T>() with the C++ type of such a dtype. Returns false for others.
template <class Function>
bool visit_cast_dtype(DType dtype, Function&& function) {
  if (!is_cast_dtype(dtype)) return false;
  if (dtype == DType::kF32) {
    function.template operator()<float>();
  } else if (is_lower(dtype)) {
    visit_lower_dtype(dtype, function);
  } else if (dtype == DType::kE4m3) {
    function.template operator()<Float8E4M3>();
  } else {
    function.template operator()<Float8E5M2>();
  }
  return true;
}

// out[i] = in[i], rounded once by the rules of core/half.h and core/float8.h.
using ConvertRow = void (*)(const void* in, void* out, std::int64_t count);
// The converter for two dtypes of vectorised casts; a plain copy if they are equal.
ConvertRow row_converter(DType in, DType out);

// A panel has up to kTile rows of kPanel elements. The source is read in whole cache lines, in rows
// long enough for the hardware prefetcher, and the panel fits in the first-level cache.
inline constexpr std::int64_t kTile = 32;
inline constexpr std::int64_t kPanel = 128;

// panel[c * kPanel + r] = in[r * stride + c]; at most kPanel rows and kTile columns.
using TransposePanel = void (*)(const void* in, std::int64_t stride, std::int64_t rows,
                                std::int64_t cols, void* panel);
// The transposer for elements of a dtype of vectorised casts.
TransposePanel panel_transposer(DType dtype);

}  // namespace mezzo::kernels
