// The computation of a strip of a product's rows, on either unit.
#pragma once

#include <cstdint>

#include "mezzo/kernels/cpu/gemm/pixel_rows.h"
#include "mezzo/kernels/cpu/norm/norm_sums.h"

namespace mezzo::kernels::pixels {

struct Strip {
  const BFloat16* x = nullptr;     // its rows
  std::int64_t row = 0, rows = 0;  // at most rows_of_strip()
  std::int64_t column = 0, end_column = 0;
};

// Computes the strip, and adds its rounded values to the sums of the last chunk of `part`, unless
// that is null. Needs TileRegisters.
void compute_on_tiles(const Product& product, const Strip& strip, const NormPart* part);
// compute_on_tiles() by dot products. Prefetches the rows after the strip and the lines of their
// results; otherwise the unit would wait for memory.
void compute_by_dots(const Product& product, const Strip& strip, const NormPart* part);

}  // namespace mezzo::kernels::pixels
