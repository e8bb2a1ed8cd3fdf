// Observers of the calls that training steps make: what a step computes, call by call.
#pragma once

#include <span>
#include <string>

#include "mezzo/core/named_tensor.h"
#include "mezzo/ops/dispatcher/call_id.h"
#include "mezzo/ops/dispatcher/call_listener.h"

namespace mezzo {
struct Batch;
}

namespace mezzo::amp {

struct TrainStepResult;

// A call of a step that has just been made, by an operation or by a captured program.
struct ObservedStepCall {
  const OpDef& op;
  Inputs inputs;  // as the kernel got them; undefined where an optional one is absent
  const Attrs& attrs;
  std::span<const Tensor> outputs;
  std::span<const ResultId> results;  // the name of each output
  std::span<const CallId> joined;     // calls that the kernel does on the way to the first output
  // The call has replaced the elements of its output; an input that is the same tensor is gone.
  bool is_change = false;
};

// Observes training steps. While one is observed, a captured step runs call by call, and nothing of
// it is recorded on a device. Steps that nobody wants to observe cost nothing.
//
// Elements of outputs can be read in on_call() only: memory is used again. Reading a result that
// kernels compute when they need it (Storage::is_materialized()) computes it, with the same bits.
class StepObserver {
 public:
  virtual ~StepObserver() = default;

  // Before a step, whose loss will be multiplied by `scale`. True: on_call() is to be called for
  // each of its calls.
  virtual bool begin_step(double /*scale*/) { return false; }
  // After a step that was skipped. True: its forward and backward pass are made once more, from the
  // same batch, weights, scale and random numbers, with on_call() for each call. Nothing but the
  // observer notices.
  virtual bool begin_replay(const TrainStepResult& /*result*/, const Batch& /*batch*/) {
    return false;
  }
  // For each call, in order. Calls that this function makes are neither observed nor recorded on
  // the tape nor cast.
  virtual void on_call(const ObservedStepCall& call) = 0;
  // After the last call of a step or of a replay that is observed.
  virtual void end_calls() {}

  // Of a step that is observed, not of a replay: before its first call, with its batch.
  virtual void begin_calls(const Batch& /*batch*/) {}
  // True: on_gradients() is to be called for the steps that are observed. A captured step then
  // updates its parameters after the backward pass, not within it; the bits are the same.
  virtual bool sees_gradients() const { return false; }
  // The gradients that the update gets, by the names of their parameters: of the whole batch, times
  // the scale of the loss. Parameters without a gradient are left out.
  virtual void on_gradients(std::span<const NamedTensor> /*gradients*/) {}
  // After an observed step and its update. Not called if the step has thrown.
  virtual void end_step(const TrainStepResult& /*result*/) {}
};

}  // namespace mezzo::amp
