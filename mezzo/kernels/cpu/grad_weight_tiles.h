// Products of bf16 panels with the tile unit (AMX): 16 x 16 sums of 32 products per instruction.
#pragma once

#include <cstdint>

namespace mezzo::kernels::grad_weight {

// True if the CPU has AMX for bf16, max_isa() allows it and the system grants its registers.
bool has_tiles();

// The calling thread's tile registers, configured while this exists.
class TileRegisters {
 public:
  TileRegisters();
  ~TileRegisters();
  TileRegisters(const TileRegisters&) = delete;
  TileRegisters& operator=(const TileRegisters&) = delete;
};

// Transposes `blocks` blocks of 16 x 16 elements of 32 bits, each in place.
void transpose_blocks(float* data, std::int64_t blocks);

// c[m][n] (+)= the sum over slots and blocks of a[m] * b[n], for 1 or 2 tiles each way.
struct TileRun {
  std::int64_t slots = 0, blocks = 0;   // blocks of 16 pixels per slot
  std::int64_t a_slot = 0, b_slot = 0;  // distances, in elements
  bool first = true;                    // the sums begin here
};
struct TileOperands {
  const float* a[2] = {};  // null: one tile only
  const float* b[2] = {};
  float* c[2][2] = {};
};
void multiply_tiles(const TileRun& run, const TileOperands& operands);

}  // namespace mezzo::kernels::grad_weight
