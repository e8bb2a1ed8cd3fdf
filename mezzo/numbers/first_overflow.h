// --check first-overflow: finds the call in which the infinity or NaN of a skipped step began.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "mezzo/amp/step_observer.h"
#include "mezzo/nn/module.h"
#include "mezzo/numbers/call_trace.h"
#include "mezzo/numbers/overflow_cause.h"

namespace mezzo::numbers {

// What was found in one skipped step.
struct OverflowFinding {
  // The number of the step among those that were watched, from 1.
  std::int64_t step = 0;
  double scale = 1;  // of its loss
  // The call; empty if every call's result was finite, as when the gradients of another process
  // were not.
  CallId call{};
  std::string and_then{};  // the calls that its kernel does with it, in a captured step
  std::size_t index = 0;   // among the step's calls, views not counted
  std::size_t calls = 0;   // their number
  OverflowCause cause{};
  // The calls that led to it, the nearest last, and the call itself.
  std::vector<TracedStepCall> chain{};

  // One line: `first overflow: encoder.3: exp (forward, call 12 of 40 of step 7): 3 of 1024 are
  // infinite in f16, from ...`, with the advice as its last sentence.
  std::string text() const;
};

// Finds where the first infinity or NaN of a skipped step began, by making the step once more and
// looking at every result. It costs nothing until a step is skipped, and reads the parameters once
// at the beginning.
//
//   numbers::FirstOverflow overflow(net, {.on_found = [](const auto& found) { ... }});
//   amp::TrainStep step(net, loss, optimizer, scaler,
//                       {.check_gradients = true, .observers = {&overflow}});
//
// Eager and captured steps are looked at alike. In a captured step a result that no kernel writes
// has no range, so the call may be the one that the kernel ends with.
class FirstOverflow final : public amp::StepObserver {
 public:
  struct Options {
    // Called for each finding: a call that goes bad in the same way as before is not found again.
    std::function<void(const OverflowFinding&)> on_found{};
    // The number of skipped steps that are looked at; later ones cost nothing. A dynamic loss scale
    // that begins too high alone skips some.
    std::int64_t most = 8;
    bool is_scale_dynamic = false;  // for the advice
  };

  // The network must outlive this object.
  FirstOverflow(nn::Module& net, Options options);

  const std::vector<OverflowFinding>& findings() const { return findings_; }
  // The number of steps that were done before those that are watched, by an earlier part of the
  // run.
  void set_steps_before(std::int64_t steps) { step_ = steps; }

  bool begin_step(double scale) override;
  bool begin_replay(const amp::TrainStepResult& result, const Batch& batch) override;
  void on_call(const amp::ObservedStepCall& call) override;
  void end_calls() override;

 private:
  StepFacts facts() const;

  nn::Module& net_;
  Options options_;
  std::vector<double> largest_at_first_;  // of each parameter
  CallTrace trace_;
  std::vector<OverflowFinding> findings_;
  std::int64_t step_ = 0;
  std::int64_t looked_at_ = 0;  // skipped steps
  double scale_ = 1;
};

}  // namespace mezzo::numbers
