#include "mezzo/ops/delayed_scale.h"

#include <algorithm>
#include <cmath>

#include "mezzo/core/device_backend.h"
#include "mezzo/ops/dispatcher/capture_hook.h"
#include "mezzo/ops/scale_factor.h"

namespace mezzo {
namespace {

void note_on_host(float* history, float amax) {
  if (std::isfinite(amax)) history[0] = std::max(history[0], amax);
}

void advance_on_host(float* scale, float* history, std::int64_t count, float largest) {
  const float amax = *std::max_element(history, history + count);
  scale[0] = scale_for(amax, largest, scale[0]);
  std::rotate(history, history + 1, history + count);
  history[0] = 0;
}

// Changes a tensor of a few numbers on the host, wherever it lies.
template <class Change>
void change(const Tensor& tensor, const Change& apply) {
  const Tensor host = tensor.to(kCpuDevice);
  apply(host.mutable_data<float>());
  if (!tensor.device().is_cpu()) copy_elements(host, tensor);
  tensor.bump_version();
}

}  // namespace

DelayedScale make_delayed_scale(std::int64_t history, Device device) {
  return {ones({1}, DType::kF32, Format::kContiguous, device),
          zeros({history}, DType::kF32, Format::kContiguous, device)};
}

void note_amax(const DelayedScale& scale, const Tensor& amax) {
  const Tensor reads[] = {amax};
  do_host_work(
      "delayed_scale.note", reads, {},
      [history = scale.history](std::span<const Tensor> read) {
        const float seen = read[0].to(kCpuDevice).data<float>()[0];
        change(history, [&](float* values) { note_on_host(values, seen); });
        return true;
      },
      HostWorkTime::kCanWait);
}

void advance(const DelayedScale& scale, DType dtype, int margin) {
  const float largest = std::ldexp(static_cast<float>(max_of(dtype)), -margin);
  change(scale.history, [&](float* history) {
    change(scale.scale,
           [&](float* value) { advance_on_host(value, history, scale.history.numel(), largest); });
  });
}

}  // namespace mezzo
