// State of optimizers in fewer than 32 bits: bf16, or e4m3 by blocks.
//
// Arithmetic stays f32: an update widens the state of an element, applies its rule, and rounds the
// new state back. How it rounds decides whether this works. Adam's second moment takes in 1 - beta2
// = 0.1 % of the new square in a step. Neighbours in bf16 are at least 0.4 % apart, those in e4m3
// 6 %. Rounded to nearest, the average would stand still, in this step and in every other one. So
// state is rounded up or down at random, with the probability that makes the mean exact: a change
// of 1/100 of the distance moves there in one step of 100. The random bits are a function of a
// seed, of the number of the update, of the parameter and of the element
// (UpdateTensors::state_random), so that the number of threads, the order of parameters and a
// resumed run change no bit.
//
// e4m3 has 3 bits of fraction and a range of 2^18 with its subnormal numbers. A block of
// kStateBlock elements, in the order in which they lie in memory, has an f32 scale: its largest
// magnitude becomes 448, the largest number of e4m3. A block begins at every multiple of
// kStateBlock of a parameter's elements, whatever the number of threads.
//
// Means of squares need more range: gradients that differ by 1000 have squares that differ by
// 10^6. Their roots are stored, which squares the range. The choice between the two neighbours of a
// root makes the mean of the *square* exact, for that is what the rule averages.
//
// A mean of squares that is not zero never becomes zero; the smallest number takes its place. A
// step is divided by its root: beside a first moment that happened to round up, a zero would leave
// a divisor of eps, and make a step of a million learning rates. With the smallest number as its
// root, the step is smaller than it ought to be. The first moment cannot be large there: its
// smallest number in e4m3 is that of its own block, of which every element is at most (1 - beta1) /
// sqrt((1 - beta2) * (1 - beta1^2 / beta2)), 7.3 by default, times the root of its mean of squares.
//
// Dettmers et al., "8-bit optimizers via block-wise quantization", ICLR 2022 (blocks with a scale,
// small parameters in f32); Gupta et al., "Deep learning with limited numerical precision", ICML
// 2015 (stochastic rounding).
#pragma once

#include <cstdint>

#include "mezzo/core/dtype.h"
#include "mezzo/core/math.h"

namespace mezzo {

// Elements that share a scale in e4m3. A scale of 4 bytes for each is 1.6 % more than 1 byte per
// element; larger blocks would have more elements that a single large one makes small.
inline constexpr std::int64_t kStateBlock = 256;

// Parameters with fewer elements keep f32 state when others have e4m3. They are biases and the
// factors of norms, whose elements each act on a whole channel and differ in magnitude more than
// those of a matrix, and all of them together are rarely 1 % of a network. bitsandbytes does the
// same.
inline constexpr std::int64_t kLeastStateInEightBits = 4096;

// Whether optimizers can keep their state in that dtype: f32, bf16 and e4m3.
constexpr bool can_hold_state(DType dtype) {
  return dtype == DType::kF32 || dtype == DType::kBf16 || dtype == DType::kE4m3;
}

inline constexpr const char* kStateDTypes = "f32, bf16 or e4m3";  // for messages

// The dtype of the state of a parameter with `numel` elements, where `wanted` was asked for.
constexpr DType state_dtype_of(DType wanted, std::int64_t numel) {
  return wanted == DType::kE4m3 && numel < kLeastStateInEightBits ? DType::kF32 : wanted;
}

// The number of scales of a slot of `numel` elements.
constexpr std::int64_t scales_of(std::int64_t numel) { return ceil_div(numel, kStateBlock); }

// The 32-bit words of a random stream for rounding one slot of `numel` elements: 16 bits for each,
// in whole blocks of four words.
constexpr std::int64_t state_words(std::int64_t numel) {
  return 4 * ceil_div(numel, std::int64_t{8});
}

}  // namespace mezzo
