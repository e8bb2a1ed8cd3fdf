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

// If one callback throws, the others must still undo their changes, and the exception of the
// evaluation must not be hidden.
void Evaluating::end() noexcept {
  for (auto callback = begun_.rbegin(); callback != begun_.rend(); ++callback) {
    try {
      (*callback)->on_evaluation_end(state_);
    } catch (...) {  // NOLINT(bugprone-empty-catch)
    }
  }
}

}  // namespace mezzo::train
