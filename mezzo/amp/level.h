// Optimization levels: how far a network is moved to 16 bits.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "mezzo/core/dtype.h"
#include "mezzo/ops/op.h"

namespace mezzo::amp {

// The names are apex's and MindSpore's. What each does to an operation depends on its precision
// class:
//
//   class      O0   O1       O2       O3
//   lower      f32  16 bits  16 bits  16 bits
//   float32    f32  f32      f32      16 bits
//   widest     as its inputs  16 bits  16 bits
//   follow     as its inputs  16 bits  16 bits
//   refuse     f32  error    error    error
//
// Inputs outside an operation's cast mask (scale, shift and statistics of a normalisation) stay f32
// at every level, and so do parameters.
enum class Level : std::uint8_t { kO0, kO1, kO2, kO3 };

const char* name_of(Level level);
// `O0` ... `O3`; empty if unknown.
std::optional<Level> parse_level(std::string_view name);

inline void append_text(std::string& out, Level level) { out += name_of(level); }

// What a mixed-precision region does: a level and its lower dtype.
struct Policy {
  Level level = Level::kO1;
  DType lower = DType::kBf16;

  // What computes in 16 bits is called by that dtype, O0 is f32 whatever `lower` says.
  DType dtype() const { return level == Level::kO0 ? DType::kF32 : lower; }
  bool operator==(const Policy&) const = default;
};

// What a region does with the floating-point inputs of one call.
enum class CastAction : std::uint8_t { kNone, kToLower, kToFloat32, kRefuse };

// The table above. A level other than O0 is meant; O0 casts nothing.
CastAction action_for(Level level, PrecisionClass precision_class);

}  // namespace mezzo::amp
