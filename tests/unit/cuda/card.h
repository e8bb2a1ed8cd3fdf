// The card that tests compute on.
#pragma once

#include "mezzo/core/device.h"

namespace mezzo {

inline constexpr Device kCard{DeviceType::kCuda, 0};

}  // namespace mezzo
