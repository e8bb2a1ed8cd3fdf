// Optimization levels: how much of a network computes in 16 bits.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "mezzo/core/dtype.h"
#include "mezzo/ops/dispatcher/op.h"

namespace mezzo::amp {

// The names are apex's and MindSpore's, and the meanings MindSpore's. `auto` is what autocast does
// in PyTorch, MegEngine and apex (there called O1). The effect of a level on an operation depends
// on its precision class:
//
//   class      O0             O1       auto           O2             O3
//   lower      as its inputs  16 bits  16 bits        16 bits        16 bits
//   float32    as its inputs  f32      f32            f32            16 bits
//   widest     as its inputs  f32      as its inputs  16 bits        16 bits
//   follow     as its inputs  f32      as its inputs  16 bits        16 bits
//   keep       as its inputs  f32      as its inputs  as its inputs  16 bits
//   refuse     as its inputs  error    error          error          error
//
// In words: O1 casts a white list (operations that gain from 16 bits). O2 casts all but a black
// list (normalisation, losses, and operations that would overflow). O3 casts everything. auto
// chooses what needs the fewest casts. O0 casts nothing and refuses nothing: f32 inputs are
// computed in f32, bf16 inputs in bf16.
//
// Inputs outside an operation's cast mask (scale, shift and statistics of a normalisation, a
// convolution's bias, the logits of a loss) stay as they are at every level, and so do parameters.
// Views are never cast, because they compute nothing.
enum class Level : std::uint8_t { kO0, kO1, kAuto, kO2, kO3 };

inline constexpr Level kLevels[] = {Level::kO0, Level::kO1, Level::kAuto, Level::kO2, Level::kO3};

const char* name_of(Level level);
// The level named `O0` ... `O3` or `auto`; empty if unknown.
std::optional<Level> parse_level(std::string_view name);
// Like parse_level(), but throws ArgumentError naming `op` if the name is unknown.
Level level_named(std::string_view name, const char* op);

inline void append_text(std::string& out, Level level) { out += name_of(level); }

// How a region casts the floating-point inputs of one call.
enum class CastAction : std::uint8_t { kNone, kToLower, kToFloat32, kRefuse };

// The action for a level and a class, from the table above.
CastAction action_for(Level level, PrecisionClass precision_class);

}  // namespace mezzo::amp
