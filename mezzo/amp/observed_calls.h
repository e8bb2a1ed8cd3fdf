// Passes the calls of a step on to its observers.
#pragma once

#include <optional>
#include <vector>

#include "mezzo/amp/step_observer.h"
#include "mezzo/nn/call_names.h"

namespace mezzo::amp {

// While it exists, the observers are told of every call on this thread, by its name. Without
// observers nobody listens.
class ObservedCalls final : private CallListener {
 public:
  explicit ObservedCalls(std::vector<StepObserver*> observers);
  // Tells the observers that the last call was made. Not called if one failed.
  void end();

 private:
  void on_finished(const FinishedCall& call) override { pass_on(call, false); }
  void on_changed(const FinishedCall& call) override { pass_on(call, true); }
  void pass_on(const FinishedCall& call, bool is_change);

  std::vector<StepObserver*> observers_;
  nn::CallNames names_;
  std::optional<ListenToCalls> listening_;
};

}  // namespace mezzo::amp
