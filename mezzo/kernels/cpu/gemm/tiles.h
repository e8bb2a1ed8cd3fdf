// The tile unit (AMX): eight registers of 16 rows of 64 bytes, and products of bf16 tiles whose
// sums are f32. Its instruction reads subnormals as zero and never returns any.
#pragma once

#include <cstdint>
#include <optional>

namespace mezzo::kernels {

// The unit that multiplies bf16 matrices.
enum class Bf16Unit : std::uint8_t {
  kTiles,  // the tile unit; needs has_tiles()
  kDots,   // the vector unit's dot product; needs has_bf16_dot()
};

// The faster unit of this CPU; nullopt if neither is faster than f32.
std::optional<Bf16Unit> bf16_unit();

// True if the CPU has AMX for bf16, max_isa() allows it and the system grants its registers.
bool has_tiles();

// The calling thread's tile registers, configured while this exists.
class TileRegisters {
 public:
  TileRegisters();
  // For factors whose rows are shorter than a register's: `numbers` values, an even count.
  // Registers 4 and 5 then have rows of that length, and registers 6 and 7 have half as many rows.
  explicit TileRegisters(std::int64_t numbers);
  ~TileRegisters();
  TileRegisters(const TileRegisters&) = delete;
  TileRegisters& operator=(const TileRegisters&) = delete;
};

// TileRegisters, if the unit is kTiles.
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
