// A listener to calls: which results were computed from which inputs, including views.
#pragma once

#include <span>

#include "mezzo/core/scoped.h"
#include "mezzo/ops/dispatcher/call_id.h"
#include "mezzo/ops/dispatcher/op.h"

namespace mezzo {

// A finished call.
struct FinishedCall {
  const OpDef& op;
  Inputs inputs;  // as the kernel got them, after autocast and promotion
  const Attrs& attrs;
  std::span<const Tensor> outputs;
  // In a run of a captured program: the name of each output, which is that of the call that made it
  // at the capture. A kernel that does the work of several calls has the results of some of them.
  // Empty for calls that are made now: see nn/call_names.h.
  std::span<const ResultId> names{};
  // Calls that the same kernel does on the way to the first output, first to last.
  std::span<const CallId> joined{};
};

class CallListener {
 public:
  virtual void on_finished(const FinishedCall& call) = 0;
  // A call by call_into(), whose result has replaced the elements of its only output.
  virtual void on_changed(const FinishedCall& /*call*/) {}

 protected:
  ~CallListener() = default;
};

// While it exists, the listener is notified of every call() on this thread, in order, and of every
// call in a run of a captured program. A cast that a call needs is a call of its own, and comes
// before it. The listener is not notified of the 16-bit copies of parameters
// (mezzo/core/derived.h), which are not made by calls. In a captured program it is not notified of
// calls that the passes have removed, nor of views that last from run to run.
class ListenToCalls {
 public:
  explicit ListenToCalls(CallListener& listener);

 private:
  Scoped<CallListener*> scope_;
};

// While it exists, nobody is notified of this thread's calls: for the calls that a listener makes,
// and for host work.
class WithoutCallListener {
 public:
  WithoutCallListener();

 private:
  Scoped<CallListener*> scope_;
};

// The listener of this thread; null if there is none.
CallListener* call_listener();

}  // namespace mezzo
