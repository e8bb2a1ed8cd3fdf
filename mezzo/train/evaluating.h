// What surrounds the evaluations of Model::fit().
#pragma once

#include <vector>

#include "mezzo/train/callback.h"

namespace mezzo::train {

// Tells callbacks of an evaluation's begin, and in reverse order of its end: those alone that have
// seen it begin.
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
