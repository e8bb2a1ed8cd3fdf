// The state of delayed scaling.
#pragma once

#include <span>

#include "mezzo/ops/scaled_linear.h"

namespace mezzo {

DelayedScale make_delayed_scale(std::int64_t history, Device device);

// Notes the largest absolute value of a tensor that was cast: element 0 of the history becomes the
// larger one. Infinity and NaN are not noted: one overflow would hold the scale for as many steps
// as the history has. Does not wait for a device. During a capture it is noted as queued work.
void note_amax(const DelayedScale& scale, const Tensor& amax);

// A scale, and by what rule it advances.
struct AdvancingScale {
  DelayedScale scale;
  DType dtype = DType::kE4m3;  // its largest number / 2^margin is what the largest value becomes
  int margin = 0;
};

// What TransformerEngine does between two steps: for each scale, the largest value of the history
// gives the scale, by scale_for(amax, largest / 2^margin); the history moves on by one element, as
// by roll(history, -1), and its element 0 becomes 0. All of them together, because starting work is
// what takes time on a device. Does not wait for a device.
void advance(std::span<const AdvancingScale> scales);
// The same for one.
void advance(const DelayedScale& scale, DType dtype, int margin);

// For recordings, which hold changes of the scales but not their versions: counts a change of each.
void count_change(std::span<const AdvancingScale> scales);

}  // namespace mezzo
