// The state of delayed scaling.
#pragma once

#include "mezzo/ops/scaled_linear.h"

namespace mezzo {

DelayedScale make_delayed_scale(std::int64_t history, Device device);

// Notes the largest absolute value of a tensor that was cast: element 0 of the history becomes the
// larger one. Infinity and NaN are not noted: one overflow would hold the scale for as many steps
// as the history has. During a capture it is noted as host work.
void note_amax(const DelayedScale& scale, const Tensor& amax);

// What TransformerEngine does between two steps, for one scale: the largest value of the history
// gives the scale, by scale_for(amax, largest / 2^margin); the history moves on by one element, as
// by roll(history, -1), and its element 0 becomes 0.
void advance(const DelayedScale& scale, DType dtype, int margin);

}  // namespace mezzo
