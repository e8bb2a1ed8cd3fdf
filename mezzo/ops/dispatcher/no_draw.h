// What a call's position in a random stream is if the call draws no numbers.
#pragma once

#include "mezzo/core/random.h"

namespace mezzo {

// The position in the attributes of a call that draws no random numbers, of an operation whose
// other calls do. No call that draws begins there: positions are multiples of a block of four
// words.
inline constexpr RandomPosition kDrawsNothing{0, ~std::uint64_t{0}};

}  // namespace mezzo
