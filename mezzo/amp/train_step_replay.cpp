// TrainStep's part in making passes that update nothing: a skipped step once more, for its
// observers, and probes.
#include <algorithm>
#include <utility>

#include "mezzo/amp/eight_bits.h"
#include "mezzo/amp/observed_calls.h"
#include "mezzo/amp/train_step.h"
#include "mezzo/core/random.h"
#include "mezzo/nn/keep_buffers.h"
#include "mezzo/ops/dispatcher/capture_hook.h"

namespace mezzo::amp {

// A skipped step has changed no weight, and has restored the buffers. Without host work the second
// one changes none either, and reads the scale that the first one has put where it reads it.
void TrainStep::replay(const Batch& batch, RandomPosition start) {
  std::vector<StepObserver*> observers = options_.observers;
  std::erase_if(observers,
                [&](StepObserver* observer) { return !observer->begin_replay(result_, batch); });
  if (observers.empty()) return;
  const KeepRandomPosition position_after_the_step;
  default_generator().set_position(start);
  ObservedCalls observed(std::move(observers));
  {
    const WithoutHostWork nothing_else;
    if (execution_) {
      execute(batch);
    } else {
      scaler_.begin_again(result_.scale);
      losses_ = {};
      accumulate_all(batch);
    }
  }
  observed.end();
  losses_ = {};
  scaler_.discard();
  drop_gradients();
}

std::shared_ptr<ScaleHistories> TrainStep::scale_histories() const {
  if (auto own = scale_histories_of(net_)) return own;
  const std::optional<Policy>& around = options_.policy;
  const bool has_some = around.has_value() && around->eight_bits != nullptr;
  return has_some ? around->eight_bits->histories : nullptr;
}

TrainStepResult TrainStep::probe(const Batch& batch, double scale, StepObserver& observer) {
  const KeepRandomPosition position;
  const nn::KeepBuffers buffers(net_);
  const KeepScales scales(scale_histories());
  GradScaler scaler(fixed_loss_scale(scale));
  std::swap(scaler_, scaler);
  // Its gradients are not finite either, and that is what a probe is there to find out.
  const NonfiniteLoss before = std::exchange(options_.nonfinite_loss, NonfiniteLoss::kOverflow);
  TrainStepResult last = std::exchange(result_, {.scale = scale});
  buffers_.begin();
  drop_gradients();
  const auto finish = [&] {
    losses_ = {};
    observing_.clear();
    drop_gradients();
    options_.nonfinite_loss = before;
    std::swap(scaler_, scaler);
    std::swap(result_, last);
  };
  try {
    if (observer.begin_step(scale)) observing_ = {&observer};
    for (StepObserver* one : observing_) one->begin_calls(batch);
    ObservedCalls observed(observing_);
    accumulate_all(batch);
    take_losses();
    observed.end();
    if (shows_gradients()) show_gradients();
    for (StepObserver* one : observing_) one->end_step(result_);
  } catch (...) {
    finish();
    throw;
  }
  finish();
  return last;
}

}  // namespace mezzo::amp
