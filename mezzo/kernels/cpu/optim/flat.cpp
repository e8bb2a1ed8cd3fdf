// The CPU's table of flat kernels, and the kernels that need no vectors.
#include "mezzo/kernels/cpu/optim/flat.h"

#include <algorithm>
#include <cmath>

#include "mezzo/core/half.h"
#include "mezzo/core/parallel.h"
#include "mezzo/ops/scale_factor.h"

namespace mezzo::flat {
namespace {

template <class T>
void refresh(const T* param, float* master, std::int64_t count) {
  parallel_for(count, 1 << 14, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      if (T(master[i]).bits != param[i].bits) master[i] = static_cast<float>(param[i]);
    }
  });
}

void refresh_master(const void* param, DType dtype, float* master, std::int64_t count) {
  visit_lower_dtype(dtype,
                    [&]<class T>() { refresh(static_cast<const T*>(param), master, count); });
}

// Computed in f64. With a small factor, `to + take * difference` in f32 stops moving when the
// increment falls below half a unit in the last place. With a single rounding at the end, that
// happens later.
void blend(Device /*device*/, const Blends& blends, std::int64_t count, double keep) {
  for (std::int64_t i = 0; i < count; ++i) blend_one(blends, i, keep);
}

// On the CPU nothing is queued: the lists are read at once.
template <class T>
std::span<const T> span_of(Listed<T> list) {
  return {list.blocks, list.count};
}

// CPU kernels throw at once, so there is nothing to note.
void note_faults(Device /*device*/, std::int32_t* /*first_bad*/) {}

void note_nonfinite(Device /*device*/, Listed<Block> blocks, const float* factor,
                    const double* squares, std::int32_t* first_bad) {
  if (squares != nullptr && std::isfinite(*squares)) return;
  const std::size_t bad = cpu::first_nonfinite_product(span_of(blocks), *factor);
  if (bad < blocks.count) *first_bad = std::min(*first_bad, static_cast<std::int32_t>(bad));
}

void note_squares(Device /*device*/, Listed<Block> blocks, const float* factor, double* sum) {
  *sum = cpu::sum_of_product_squares(span_of(blocks), *factor);
}

void update_if(const UpdateRule& rule, Device /*device*/, const Condition& condition,
               Listed<UpdateBlock> blocks, const UpdateFactors* factors) {
  if (!is_open_on_host(condition.gate)) return;
  UpdateFactors clipped = *factors;
  const Clip& clip = condition.clip;
  if (clip.sum_of_squares != nullptr) {
    clipped.clip = clip_factor(std::sqrt(*clip.sum_of_squares), clip.max_norm);
  }
  cpu::update(rule, span_of(blocks), clipped);
}

void note_largest(Device /*device*/, const float* seen, float* largest) {
  if (std::isfinite(*seen)) *largest = std::max(*largest, *seen);
}

void advance_scales(Device /*device*/, std::span<const ScaleHistory> scales) {
  for (const ScaleHistory& one : scales) {
    const float amax = *std::max_element(one.history, one.history + one.count);
    *one.scale = scale_for(amax, one.largest, *one.scale);
    std::rotate(one.history, one.history + 1, one.history + one.count);
    one.history[0] = 0;
  }
}

}  // namespace

extern const Kernels kCpuKernels{.name = "cpu_simd",
                                 .first_nonfinite = cpu::first_nonfinite,
                                 .scale = cpu::scale,
                                 .sum_of_squares = cpu::sum_of_squares,
                                 .clamp = cpu::clamp_blocks,
                                 .count_exponents = cpu::count_exponents,
                                 .update = cpu::update,
                                 .note_faults = note_faults,
                                 .note_nonfinite = note_nonfinite,
                                 .note_squares = note_squares,
                                 .update_if = update_if,
                                 .refresh_master = refresh_master,
                                 .blend = blend,
                                 .note_largest = note_largest,
                                 .advance_scales = advance_scales};

}  // namespace mezzo::flat
