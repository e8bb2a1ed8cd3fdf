// How updates are applied to parameters that are kept in 16 bits.
#pragma once

#include <cstdint>

namespace mezzo {

// bf16 has 8 bits, so the neighbours of a number are at least 1/256 of it away. Rounded to nearest,
// an update of less than 1/512 of the parameter leaves it unchanged, in this step and in every
// other one (f16: 1/4096). Most updates of a trained network are smaller than that. Training then
// stops although gradients, moments and losses are exact. Three rules help:
//
//   kMaster      an f32 copy takes the updates, and the parameter is its rounding. The copy is what
//                an f32 parameter would be; 4 bytes more per element (6 instead of 4).
//   kStochastic  the result is rounded up or down at random, so that on average nothing is lost: an
//                update of 1/100 of the distance to the neighbour moves there in one step of 100.
//                No additional memory; noise of up to one unit in the last place per step.
//   kKahan       the rounding error is kept in 16 bits and added in the next step, when it has
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
