// Listening to calls: what was computed from what, views included.
#pragma once

#include <span>

#include "mezzo/core/scoped.h"
#include "mezzo/ops/dispatcher/op.h"

namespace mezzo {

// A call that is done.
struct FinishedCall {
  const OpDef& op;
  Inputs inputs;  // as the operation got them, after autocast and promotion
  const Attrs& attrs;
  std::span<const Tensor> outputs;
};

class CallListener {
 public:
  virtual void on_finished(const FinishedCall& call) = 0;

 protected:
  ~CallListener() = default;
};

// While it exists, the listener is told of every call() on this thread, in their order: a cast that
// a call needs is a call of its own, and comes before it. Not told of: the 16-bit copies of
// parameters (mezzo/core/derived.h), which no call makes, and changes in place by call_into().
class ListenToCalls {
 public:
  explicit ListenToCalls(CallListener& listener);

 private:
  Scoped<CallListener*> scope_;
};

}  // namespace mezzo
