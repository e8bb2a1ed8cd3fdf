// The tile unit (AMX): eight registers of 16 rows of 64 bytes, and products of bf16 tiles whose
// sums are f32. Its instruction reads subnormal numbers as zero and gives none back.
#pragma once

#include <cstdint>

namespace mezzo::kernels {

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

}  // namespace mezzo::kernels
