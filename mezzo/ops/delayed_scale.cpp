#include "mezzo/ops/delayed_scale.h"

#include <cmath>
#include <vector>

#include "mezzo/ops/dispatcher/capture_hook.h"
#include "mezzo/ops/update/flat_kernels.h"

namespace mezzo {
namespace {

flat::ScaleHistory place_of(const AdvancingScale& one) {
  return {static_cast<float*>(one.scale.scale.address()),
          static_cast<float*>(one.scale.history.address()), one.scale.history.numel(),
          std::ldexp(static_cast<float>(max_of(one.dtype)), -one.margin)};
}

}  // namespace

DelayedScale make_delayed_scale(std::int64_t history, Device device) {
  return {ones({1}, DType::kF32, Format::kContiguous, device),
          zeros({history}, DType::kF32, Format::kContiguous, device)};
}

void note_amax(const DelayedScale& scale, const Tensor& amax) {
  std::vector<Tensor> reads{amax};
  // A recording holds the address of the history.
  if (captures_for_recording()) reads.push_back(scale.history);
  do_queued_work(
      "delayed_scale.note", reads, {}, [history = scale.history] { history.bump_version(); },
      [history = scale.history](std::span<const Tensor> read) {
        const Device device = history.device();
        const Tensor seen = read[0].to(device);
        flat::kernels_on(device).note_largest(device, static_cast<const float*>(seen.address()),
                                              static_cast<float*>(history.address()));
      },
      HostWorkTime::kCanWait);
}

void advance(std::span<const AdvancingScale> scales) {
  count_change(scales);
  for (std::size_t first = 0; first < scales.size();) {
    const Device device = scales[first].scale.scale.device();
    std::vector<flat::ScaleHistory> places;
    for (; first < scales.size() && scales[first].scale.scale.device() == device; ++first) {
      places.push_back(place_of(scales[first]));
    }
    flat::kernels_on(device).advance_scales(device, places);
  }
}

void advance(const DelayedScale& scale, DType dtype, int margin) {
  const AdvancingScale one{scale, dtype, margin};
  advance({&one, 1});
}

void count_change(std::span<const AdvancingScale> scales) {
  for (const AdvancingScale& one : scales) {
    one.scale.scale.bump_version();
    one.scale.history.bump_version();
  }
}

}  // namespace mezzo
