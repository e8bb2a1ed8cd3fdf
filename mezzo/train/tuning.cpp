#include "mezzo/train/tuning.h"

#include <algorithm>
#include <utility>

#include "mezzo/core/random.h"
#include "mezzo/nn/keep_buffers.h"
#include "mezzo/numbers/make_step.h"
#include "mezzo/train/one_step.h"
#include "mezzo/train/run.h"
#include "mezzo/train/trainer.h"

namespace mezzo::train {
namespace {

// What the exact gradients of all batches may take, in seconds.
constexpr double kMostSecondsInF64 = 20;

// Keeps the gradients of a step.
class KeepGradients final : public amp::StepObserver {
 public:
  bool begin_step(double /*scale*/) override { return true; }
  void on_call(const amp::ObservedStepCall& /*call*/) override {}
  bool sees_gradients() const override { return true; }
  void on_gradients(std::span<const NamedTensor> gradients) override {
    for (const NamedTensor& gradient : gradients) {
      gradients_.push_back({gradient.name, tune::plain_copy(gradient.tensor, 1)});
    }
  }

  std::vector<NamedTensor> take() { return std::move(gradients_); }

 private:
  std::vector<NamedTensor> gradients_;
};

// The step of a run in f64, from the same weights and random numbers.
class StepInF64 {
 public:
  StepInF64(const RunOptions& run, const ExampleKind& example)
      : loss_(training_loss(run)), net_(make_model(run, example.shape, example.classes)) {
    numbers::to_f64(*net_);
  }

  tune::StepGradients operator()(const Batch& batch) const {
    const KeepRandomPosition position;
    const nn::KeepBuffers buffers(*net_);
    KeepGradients gradients;
    tune::StepGradients result;
    result.loss =
        numbers::make_step(*net_, loss_, numbers::to_f64(batch.to(kCpuDevice)), gradients);
    result.tensors = gradients.take();
    return result;
  }

 private:
  amp::LossFunction loss_;
  std::shared_ptr<nn::Module> net_;
};

std::vector<Batch> first_batches(const RunOptions& run, const DataPair& data, std::int64_t count) {
  std::vector<Batch> batches;
  const auto source = training_batches(run, data);
  data::Batch next;
  while (std::ssize(batches) < count && source->next(next)) {
    const Batch batch{.inputs = {next.images}, .labels = {next.labels}};
    batches.push_back(batch.to(run.device));
  }
  return batches;
}

}  // namespace

tune::TuneResult tune_run(const RunOptions& run, const DataPair& data, tune::TuneOptions options) {
  RunOptions own = run;
  own.policy = {.level = amp::Level::kO0};
  own.precision = {};
  fit_to_data(own, data);
  set_class_weights(own.loss, data);
  const ExampleKind example = example_of(own, data);
  const std::vector<Batch> batches = first_batches(own, data, options.error_batches);
  Trainer trainer(own, example.shape, example.classes);
  options.model = own.model;
  options.graph = own.graph;
  // f64 is computed on the host alone, and not for a network of which parts are recomputed.
  const double seconds = seconds_in_f64(own, example, own.batch_size * std::ssize(batches));
  if (options.exact == nullptr && own.device.is_cpu() && seconds <= kMostSecondsInF64) {
    options.exact = StepInF64(own, example);
    options.exact_name = "f64";
  }
  manual_seed(own.seed);
  return amp::tune(trainer.model.train_step(), batches, options);
}

}  // namespace mezzo::train
