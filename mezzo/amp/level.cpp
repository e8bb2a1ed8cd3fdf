#include "mezzo/amp/level.h"

#include "mezzo/core/error.h"

namespace mezzo::amp {
namespace {

// The action for operations that neither need f32's range nor gain speed from 16 bits.
CastAction follow_action(Level level) {
  switch (level) {
    case Level::kO1: return CastAction::kToFloat32;
    case Level::kO2:
    case Level::kO3: return CastAction::kToLower;
    default: return CastAction::kNone;
  }
}

}  // namespace

const char* name_of(Level level) {
  switch (level) {
    case Level::kO0: return "O0";
    case Level::kO1: return "O1";
    case Level::kAuto: return "auto";
    case Level::kO2: return "O2";
    case Level::kO3: return "O3";
  }
  return "?";
}

std::optional<Level> parse_level(std::string_view name) {
  for (const Level level : kLevels) {
    if (name == name_of(level)) return level;
  }
  return std::nullopt;
}

Level level_named(std::string_view name, const char* op) {
  const std::optional<Level> level = parse_level(name);
  check_arg(level.has_value(), op, "unknown level `", name,
            "`. Known levels are O0, O1, auto, O2 and O3");
  return *level;
}

CastAction action_for(Level level, PrecisionClass precision_class) {
  if (level == Level::kO0) return CastAction::kNone;
  switch (precision_class) {
    case PrecisionClass::kLower: return CastAction::kToLower;
    case PrecisionClass::kFloat32:
      return level == Level::kO3 ? CastAction::kToLower : CastAction::kToFloat32;
    case PrecisionClass::kWidest:
    case PrecisionClass::kFollow: return follow_action(level);
    case PrecisionClass::kKeep:
      return level == Level::kO2 ? CastAction::kNone : follow_action(level);
    case PrecisionClass::kRefuse: return CastAction::kRefuse;
  }
  return CastAction::kNone;
}

}  // namespace mezzo::amp
