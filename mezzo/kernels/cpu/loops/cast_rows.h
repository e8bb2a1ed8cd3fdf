// The vectorised parts of a cast: rows, and tiles that are transposed. cast.cpp finds where they
// lie.
#pragma once

#include <cstdint>

#include "mezzo/core/dtype.h"

namespace mezzo::kernels {

// out[i] = in[i].
using ConvertRow = void (*)(const void* in, void* out, std::int64_t count);
// The converter for two dtypes of vector kernels; a plain copy if they are equal.
ConvertRow row_converter(DType in, DType out);

// A panel has up to kTile rows of kPanel elements. The source is read in whole cache lines, in rows
// long enough for the hardware prefetcher, and the panel fits in the first-level cache.
inline constexpr std::int64_t kTile = 32;
inline constexpr std::int64_t kPanel = 128;

// panel[c * kPanel + r] = in[r * stride + c]; at most kPanel rows and kTile columns.
using TransposePanel = void (*)(const void* in, std::int64_t stride, std::int64_t rows,
                                std::int64_t cols, void* panel);
TransposePanel panel_transposer(DType dtype);

}  // namespace mezzo::kernels
