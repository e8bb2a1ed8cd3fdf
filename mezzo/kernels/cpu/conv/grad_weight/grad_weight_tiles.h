// Products of bf16 panels on the tile unit (AMX): 16 x 16 sums of 32 products per instruction.
#pragma once

#include <cstdint>

namespace mezzo::kernels::grad_weight {

// c[m][n] (+)= the sum over slots and blocks of a[m] * b[n], for 1 or 2 tiles each way.
struct TileRun {
  std::int64_t slots = 0, blocks = 0;   // blocks of 16 pixels per slot
  std::int64_t a_slot = 0, b_slot = 0;  // distances, in elements
  std::int64_t c_row = 16;              // from one row of sums to the next
  bool first = true;                    // the sums begin here
};
struct TileOperands {
  const float* a[2] = {};  // null: one tile only
  const float* b[2] = {};
  float* c[2][2] = {};
};
void multiply_tiles(const TileRun& run, const TileOperands& operands);

}  // namespace mezzo::kernels::grad_weight
