// Gathering the exponents of activations and weights during training, per call and per module.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <vector>

#include "mezzo/amp/step_observer.h"
#include "mezzo/nn/module.h"
#include "mezzo/numbers/call_histogram.h"

namespace mezzo::numbers {

// Counts, in every so many steps, the exponents of what the calls of the forward pass compute and
// of the network's weights. The histograms show what formats with fewer bits would do to them, and
// so what has to be kept in f32, before a run is switched to f16 and after.
//
//   numbers::ActivationStatistics statistics(net, {.every = 50});
//   amp::TrainStep step(net, loss, optimizer, scaler, {.observers = {&statistics}});
//   ...
//   for (const numbers::CallHistogram& call : statistics.total()) {
//     numbers::effect_of(call.exponents.counts, NumberFormat::kF16).fits() ...
//   }
//
// Steps between the counted ones cost nothing. Eager and captured steps are counted alike; a
// captured step runs call by call while it is counted. Of each call its first result is counted,
// in the dtype that it has: further results are statistics that kernels keep in f32. Not counted
// are views, integers, f64, copies of weights, casts to wider dtypes, casts and single numbers
// outside of modules (the loss), and results that are not in memory because kernels compute them as
// they read (pending norms, what fused kernels do not write).
class ActivationStatistics final : public amp::StepObserver {
 public:
  struct Options {
    std::int64_t every = 50;  // interval in steps; the first one is counted
    // Called at the end of each step that was counted.
    std::function<void(const ActivationStatistics&)> on_counted{};
  };

  // The network must outlive this object. Throws ArgumentError unless every >= 1.
  ActivationStatistics(nn::Module& net, Options options);

  // Steps that were counted.
  std::int64_t counted_steps() const { return counted_steps_; }
  // For each call, in the order in which they were first made: of the last step that was counted,
  // and of all.
  const std::vector<CallHistogram>& latest() const { return latest_; }
  const std::vector<CallHistogram>& total() const { return total_; }
  // For each floating-point parameter and buffer, in the network's order, as it was before the
  // step.
  const std::vector<amp::ExponentHistogram>& latest_weights() const { return latest_weights_; }
  const std::vector<amp::ExponentHistogram>& total_weights() const { return total_weights_; }

  bool begin_step(double scale) override;
  void on_call(const amp::ObservedStepCall& call) override;
  void end_calls() override;

 private:
  void begin_counting();
  bool is_counted(const amp::ObservedStepCall& call, std::size_t output) const;
  CallHistogram& latest_of(const CallId& id);

  nn::Module& net_;
  Options options_;
  std::int64_t step_ = 0;
  std::int64_t counted_steps_ = 0;
  std::vector<CallHistogram> latest_;
  std::vector<CallHistogram> total_;
  std::vector<amp::ExponentHistogram> latest_weights_;
  std::vector<amp::ExponentHistogram> total_weights_;
  std::map<CallId, std::size_t> index_of_;
  std::set<const Storage*> weights_;  // memory of parameters and buffers
};

}  // namespace mezzo::numbers
