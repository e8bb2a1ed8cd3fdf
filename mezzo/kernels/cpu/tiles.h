// The tile unit (AMX): eight registers of 16 rows of 64 bytes, and products of bf16 tiles whose
// sums are f32. Its instruction reads subnormal numbers as zero and gives none back.
#pragma once

#include <cstdint>
#include <optional>

namespace mezzo::kernels {

// What multiplies bf16 numbers.
enum class Bf16Unit : std::uint8_t {
  kTiles,  // the tile unit; needs has_tiles()
  kDots,   // the vector unit's dot product; needs has_bf16_dot()
};

// The faster one of this CPU; none if neither is faster than f32.
std::optional<Bf16Unit> bf16_unit();

// True if the CPU has AMX for bf16, max_isa() allows it and the system grants its registers.
bool has_tiles();

// The calling thread's tile registers, configured while this exists.
class TileRegisters {
 public:
  TileRegisters();
  // For factors of fewer numbers than a row holds, an even one: rows of registers 4 and 5 end
  // there, and of registers 6 and 7 there are half as many.
  explicit TileRegisters(std::int64_t numbers);
  ~TileRegisters();
  TileRegisters(const TileRegisters&) = delete;
  TileRegisters& operator=(const TileRegisters&) = delete;
};

// Those, where it is the tile unit that multiplies.
class UnitRegisters {
 public:
  explicit UnitRegisters(Bf16Unit unit) {
    if (unit == Bf16Unit::kTiles) tiles_.emplace();
  }

 private:
  std::optional<TileRegisters> tiles_;
};

// Transposes `blocks` blocks of 16 x 16 elements of 32 bits, each in place.
void transpose_blocks(float* data, std::int64_t blocks);

}  // namespace mezzo::kernels
