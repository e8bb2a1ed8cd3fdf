// Brackets the evaluations of Model::fit() with the hooks of callbacks.
#pragma once

#include <vector>

#include "mezzo/train/callback.h"

namespace mezzo::train {

// Tells callbacks of an evaluation's beginning, and in reverse order of its end. Only those that
// were told of the beginning are told of the end.
class Evaluating {
 public:
  Evaluating(const std::vector<Callback*>& callbacks, FitState& state);
  ~Evaluating() { end(); }
  Evaluating(const Evaluating&) = delete;
  Evaluating& operator=(const Evaluating&) = delete;

 private:
  void end() noexcept;

  FitState& state_;
  std::vector<Callback*> begun_;
};

}  // namespace mezzo::train
