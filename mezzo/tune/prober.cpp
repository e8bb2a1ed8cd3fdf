#include "mezzo/tune/prober.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "mezzo/amp/module_precision.h"
#include "mezzo/ops/exact_sums.h"
#include "mezzo/tune/step_state.h"

namespace mezzo::tune {
namespace {

amp::Policy all_f32() { return {.level = amp::Level::kO3, .lower = DType::kF32}; }

// A gradient that rounding alone changes by more than half is noise. In a deep network with ReLUs
// it may change every gradient by some percent, and they still train.
constexpr double kMostNoise = 0.5;

// From the scale that training begins with to none; each loses four of f16's binades of small
// gradients.
constexpr std::array kProbeScales{65536.0, 4096.0, 256.0, 16.0, 1.0};

// Looks at the gradients of one step, and at nothing else.
class SeeGradients final : public amp::StepObserver {
 public:
  explicit SeeGradients(std::function<void(std::span<const NamedTensor>)> see)
      : see_(std::move(see)) {}

  bool begin_step(double /*scale*/) override { return true; }
  void on_call(const amp::ObservedStepCall& /*call*/) override {}
  bool sees_gradients() const override { return true; }
  void on_gradients(std::span<const NamedTensor> gradients) override { see_(gradients); }

 private:
  std::function<void(std::span<const NamedTensor>)> see_;
};

}  // namespace

void set_precision(nn::Module& net, const amp::PrecisionPlan& plan) { amp::apply_plan(net, plan); }

void set_precision(nn::Module& net, const amp::Policy& policy) {
  amp::set_policy(net, policy.level == amp::Level::kO0 ? all_f32() : policy);
}

Prober::Prober(amp::TrainStep& step, std::vector<Batch> batches, const ExactStep& exact)
    : step_(step), batches_(std::move(batches)) {
  for (const Batch& batch : batches_) {
    if (exact != nullptr) {
      exact_.push_back(exact(batch));
    } else {
      const ExactSums direct;
      set_precision(step_.net(), all_f32());
      exact_.push_back(gradients_of(batch));
    }
  }
  find_noise();
}

StepGradients Prober::gradients_of(const Batch& batch) {
  StepGradients result;
  SeeGradients see([&](std::span<const NamedTensor> gradients) {
    for (const NamedTensor& gradient : gradients) {
      result.tensors.push_back({gradient.name, plain_copy(gradient.tensor, 1)});
    }
  });
  result.loss = step_.probe(batch, 1, see).loss;
  return result;
}

void Prober::find_noise() {
  const StepState before(step_.net(), step_.optimizer());
  const StepGradients first = [&] {
    const ExactSums direct;
    set_precision(step_.net(), all_f32());
    return gradients_of(batches_.front());
  }();
  perturb_parameters(step_.net());
  const ExactSums direct;
  const StepGradients second = gradients_of(batches_.front());
  left_out_.assign(first.tensors.size(), false);
  for (std::size_t i = 0; i < first.tensors.size(); ++i) {
    const GradientError apart = error_of({.loss = first.loss, .tensors = {first.tensors[i]}},
                                         {{second.tensors[i]}}, second.loss, 1, {});
    left_out_[i] = !(apart.total <= kMostNoise);
  }
}

std::vector<std::string> Prober::noise() const {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < left_out_.size(); ++i) {
    if (left_out_[i]) names.push_back(exact_.front().tensors[i].name);
  }
  return names;
}

GradientError Prober::measure(const amp::PrecisionPlan& plan) {
  set_precision(step_.net(), plan);
  return measure_now(plan.has(DType::kF16));
}

GradientError Prober::measure(const amp::Policy& policy) {
  set_precision(step_.net(), policy);
  return measure_now(has_narrow_range(policy.dtype()));
}

GradientError Prober::measure_now(bool is_scaled) {
  std::vector<GradientError> errors;
  const std::span<const double> all(kProbeScales);
  std::span<const double> scales = is_scaled ? all : all.last(1);
  for (std::size_t batch = 0; batch < batches_.size(); ++batch) {
    GradientError error = measure_batch(batch, scales.front());
    while (!error.is_finite() && scales.size() > 1) {
      scales = scales.subspan(1);
      error = measure_batch(batch, scales.front());
    }
    errors.push_back(std::move(error));
    if (!errors.back().is_finite()) break;
  }
  return mean_of(errors);
}

GradientError Prober::measure_batch(std::size_t batch, double scale) {
  std::optional<GradientError> error;
  SeeGradients see([&](std::span<const NamedTensor> gradients) {
    error = error_of(exact_[batch], gradients, exact_[batch].loss, scale, left_out_);
  });
  const double loss = step_.probe(batches_[batch], scale, see).loss;
  const StepGradients of_loss{.loss = exact_[batch].loss};
  error->loss = error_of(of_loss, {}, loss, scale, {}).loss;
  return *std::move(error);
}

}  // namespace mezzo::tune
