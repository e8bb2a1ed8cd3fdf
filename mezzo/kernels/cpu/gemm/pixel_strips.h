// A strip of a product's rows, by each of the units.
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

// Computes the strip, and adds its rounded numbers to the sums of the last chunk of `part`, unless
// that is null. Needs TileRegisters.
void compute_on_tiles(const Product& product, const Strip& strip, const NormPart* part);
// The same by dot products. Asks for the rows behind the strip, and for the lines that their
// results go to: the unit would wait for memory otherwise.
void compute_by_dots(const Product& product, const Strip& strip, const NormPart* part);

}  // namespace mezzo::kernels::pixels
