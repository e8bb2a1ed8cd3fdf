// An observer of what autocast does to each call.
#pragma once

#include <span>

#include "mezzo/amp/policy.h"
#include "mezzo/ops/dispatcher/op.h"

namespace mezzo::amp {

// A call and the casts of its inputs.
struct ObservedCall {
  const OpDef& op;
  std::span<const Tensor> before;  // the inputs before autocast
  Inputs after;                    // the inputs that the operation gets
  CastAction action;
  const Policy* policy;  // of the region; null outside of regions
};

class CallObserver {
 public:
  virtual void on_call(const ObservedCall& call) = 0;

 protected:
  ~CallObserver() = default;
};

// While it exists, the observer is notified of every call on this thread, inside and outside of
// regions.
class ObserveCalls {
 public:
  explicit ObserveCalls(CallObserver& observer);
  ~ObserveCalls();
  ObserveCalls(const ObserveCalls&) = delete;
  ObserveCalls& operator=(const ObserveCalls&) = delete;

 private:
  CallObserver* previous_;
};

}  // namespace mezzo::amp
