// A listener to calls: which results were computed from which inputs, including views.
#pragma once

#include <span>

#include "mezzo/core/scoped.h"
#include "mezzo/ops/dispatcher/op.h"

namespace mezzo {

// A finished call.
struct FinishedCall {
  const OpDef& op;
  Inputs inputs;  // as the kernel got them, after autocast and promotion
  const Attrs& attrs;
  std::span<const Tensor> outputs;
};

class CallListener {
 public:
  virtual void on_finished(const FinishedCall& call) = 0;

 protected:
  ~CallListener() = default;
};

// While it exists, the listener is notified of every call() on this thread, in order. A cast that a
// call needs is a call of its own, and comes before it. The listener is not notified of the 16-bit
// copies of parameters (mezzo/core/derived.h), which are not made by calls, nor of in-place changes
// by call_into().
class ListenToCalls {
 public:
  explicit ListenToCalls(CallListener& listener);

 private:
  Scoped<CallListener*> scope_;
};

}  // namespace mezzo
