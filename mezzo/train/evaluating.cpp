#include "mezzo/train/evaluating.h"

namespace mezzo::train {

Evaluating::Evaluating(const std::vector<Callback*>& callbacks, FitState& state) : state_(state) {
  try {
    for (Callback* callback : callbacks) {
      callback->on_evaluation_begin(state);
      begun_.push_back(callback);
    }
  } catch (...) {
    end();
    throw;
  }
}

// What one throws must not keep others from putting back what they have changed, nor hide what the
// evaluation has thrown.
void Evaluating::end() noexcept {
  for (auto callback = begun_.rbegin(); callback != begun_.rend(); ++callback) {
    try {
      (*callback)->on_evaluation_end(state_);
    } catch (...) {  // NOLINT(bugprone-empty-catch)
    }
  }
}

}  // namespace mezzo::train
