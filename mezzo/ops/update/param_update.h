// How an update reaches a parameter that is kept in 16 bits.
#pragma once

#include <cstdint>

namespace mezzo {

// A bf16 number has 8 bits, so its neighbours are at least 1/256 of it away: an update of less than
// 1/512 of the parameter, rounded to nearest, leaves it where it was, in this step and in every
// other one (f16: 1/4096). Most updates of a trained network are smaller than that. Training then
// stops although gradients, moments and losses are exact, and three things help:
//
//   kMaster      an f32 copy takes the updates, the parameter is its rounding. What it computes is
//                what f32 parameters would; 4 bytes more per element (6 instead of 4).
//   kStochastic  the result is rounded up or down at random, so that on average nothing is lost: an
//                update of 1/100 of the distance to the neighbour moves there in one step of 100.
//                No memory at all; noise of up to one unit in the last place per step.
//   kKahan       what rounding cut off is kept in 16 bits and added in the next step, when it has
//                grown. 2 bytes more per element, as much as an f32 parameter; no noise. Parameter
//                and compensation together hold 16 bits (bf16) or 22 (f16) of the sum; where an f16
//                compensation falls below 2^-24, less.
//   kNearest     rounded to nearest, for comparison, and for updates that are large.
//
// Kahan, "Pracniques: further remarks on reducing truncation errors", CACM 8 (1965); Gupta et al.,
// "Deep learning with limited numerical precision", ICML 2015 (stochastic rounding); Zamirai et
// al., "Revisiting BFloat16 training", 2020 (both, for bf16 without master weights).
enum class ParamUpdate : std::uint8_t { kMaster, kNearest, kStochastic, kKahan };

}  // namespace mezzo
