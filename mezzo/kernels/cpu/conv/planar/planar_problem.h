// Convolutions of few channels as the kernels of this folder see them.
#pragma once

#include <cstdint>

#include "mezzo/kernels/cpu/conv/planar/planar_plan.h"
#include "mezzo/kernels/cpu/conv/planar/row_sums.h"
#include "mezzo/kernels/cpu/conv/problem.h"

namespace mezzo::kernels {

namespace planar {

// The most channels of the result, and the channels of x that are copied at a time: fewer would be
// gathered element by element.
inline constexpr std::int64_t kMostChannels = 8;

Problem problem_of(const conv::Problem& problem);
// The gradient by the input as a convolution of the result's gradient, with as much padding as
// makes its first window end at the first pixel of the input. At stride 1.
Problem turned_problem_of(const conv::Problem& problem);

}  // namespace planar

namespace row_sums {

// Of a gradient by the input. `by_dots`: bf16 by dot products.
Problem problem_of(const conv::Problem& problem, bool by_dots);

}  // namespace row_sums

}  // namespace mezzo::kernels
