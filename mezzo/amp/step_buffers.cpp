#include "mezzo/amp/step_buffers.h"

#include <vector>

#include "mezzo/ops/dispatcher/capture_hook.h"

namespace mezzo::amp {

void StepBuffers::take(std::span<nn::Module* const> nets) {
  if (capture_hook() != nullptr) snapshot_.find(nets);
  const auto prepare = [this, all = std::vector(nets.begin(), nets.end())] {
    snapshot_.find(all);
    snapshot_.copy_on_host();
    taken_ = Taken::kOnHost;
  };
  const auto copy = [this](std::span<const Tensor>) {
    snapshot_.copy_on_devices();
    taken_ = Taken::kEverywhere;
  };
  const std::vector<Tensor> places =
      capture_hook() != nullptr ? snapshot_.on_devices() : std::vector<Tensor>();
  do_queued_work("snapshot", places, {}, prepare, copy);
}

void StepBuffers::complete() {
  if (taken_ == Taken::kOnHost) taken_ = Taken::kEverywhere;
}

void StepBuffers::restore() const {
  if (taken_ != Taken::kNothing) snapshot_.restore(taken_ == Taken::kEverywhere);
}

}  // namespace mezzo::amp
