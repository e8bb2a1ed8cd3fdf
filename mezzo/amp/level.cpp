#include "mezzo/amp/level.h"

namespace mezzo::amp {

const char* name_of(Level level) {
  switch (level) {
    case Level::kO0: return "O0";
    case Level::kO1: return "O1";
    case Level::kO2: return "O2";
    case Level::kO3: return "O3";
  }
  return "?";
}

std::optional<Level> parse_level(std::string_view name) {
  for (const Level level : {Level::kO0, Level::kO1, Level::kO2, Level::kO3}) {
    if (name == name_of(level)) return level;
  }
  return std::nullopt;
}

CastAction action_for(Level level, PrecisionClass precision_class) {
  if (level == Level::kO0) return CastAction::kNone;
  switch (precision_class) {
    case PrecisionClass::kLower: return CastAction::kToLower;
    case PrecisionClass::kFloat32:
      return level == Level::kO3 ? CastAction::kToLower : CastAction::kToFloat32;
    case PrecisionClass::kWidest:
    case PrecisionClass::kFollow:
      return level == Level::kO1 ? CastAction::kNone : CastAction::kToLower;
    case PrecisionClass::kRefuse: return CastAction::kRefuse;
  }
  return CastAction::kNone;
}

}  // namespace mezzo::amp
