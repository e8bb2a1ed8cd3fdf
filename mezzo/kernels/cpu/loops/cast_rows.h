// The parts of a cast that are vectors: rows and tiles. Where they lie is for cast.cpp to find.
#pragma once

#include <cstdint>

#include "mezzo/core/dtype.h"

namespace mezzo::kernels {

// out[i] = in[i].
using ConvertRow = void (*)(const void* in, void* out, std::int64_t count);
// For the dtypes of vector kernels; a plain copy where they agree.
ConvertRow row_converter(DType in, DType out);

// A panel has up to kTile rows of kPanel numbers: whole cache lines of the source, and rows long
// enough for the memory system to see them coming, in the first-level cache.
inline constexpr std::int64_t kTile = 32;
inline constexpr std::int64_t kPanel = 128;

// panel[c * kPanel + r] = in[r * stride + c]; at most kPanel rows and kTile columns.
using TransposePanel = void (*)(const void* in, std::int64_t stride, std::int64_t rows,
                                std::int64_t cols, void* panel);
TransposePanel panel_transposer(DType dtype);

}  // namespace mezzo::kernels
