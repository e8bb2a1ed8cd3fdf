// TrainStep's part in making a skipped step once more, for its observers.
#include <algorithm>
#include <utility>

#include "mezzo/amp/observed_calls.h"
#include "mezzo/amp/train_step.h"
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

}  // namespace mezzo::amp
