#include "mezzo/train/one_step.h"

#include <chrono>
#include <utility>

#include "mezzo/core/parallel.h"
#include "mezzo/core/random.h"
#include "mezzo/nn/inference.h"
#include "mezzo/numbers/make_step.h"
#include "mezzo/ops/dispatcher/kernel_listener.h"

namespace mezzo::train {
namespace {

// What plain loops in f64 do per second and thread.
constexpr double kPlainFlops = 1e9;

// Adds up the products of kernels.
class CountProducts final : public KernelListener {
 public:
  void on_run(const KernelWork& work, double /*ms*/) override { flops_ += work.flops; }
  double flops() const { return flops_; }

 private:
  double flops_ = 0;
};

}  // namespace

// Passes a step on to an observer that is known only when the step is made.
class OneStep::Passing final : public amp::StepObserver {
 public:
  amp::StepObserver* next = nullptr;

  bool begin_step(double scale) override { return next != nullptr && next->begin_step(scale); }
  void begin_calls(const Batch& batch) override { next->begin_calls(batch); }
  bool sees_gradients() const override { return next != nullptr && next->sees_gradients(); }
  void on_call(const amp::ObservedStepCall& call) override { next->on_call(call); }
  void on_gradients(std::span<const NamedTensor> gradients) override {
    next->on_gradients(gradients);
  }
  void end_calls() override { next->end_calls(); }
  void end_step(const amp::TrainStepResult& result) override { next->end_step(result); }
};

Batch first_batch(const RunOptions& options, const DataPair& data) {
  data::Batch first;
  training_batches(options, data)->next(first);
  Batch batch{.inputs = {first.images}, .labels = {first.labels}};
  return batch.to(kCpuDevice);
}

OneStep::OneStep(Options options, const ExampleKind& example, Batch batch)
    : options_(std::move(options)),
      batch_(std::move(batch)),
      passing_(std::make_unique<Passing>()) {
  if (options_.is_f64) {
    wide_ = make_model(options_.run, example.shape, example.classes);
    numbers::to_f64(*wide_);
    batch_ = numbers::to_f64(batch_);
    return;
  }
  options_.run.watch_every = 0;
  trainer_ = std::make_unique<Trainer>(options_.run, example.shape, example.classes,
                                       TrainerHooks{.observer = passing_.get()});
  batch_ = batch_.to(options_.run.device);
}

OneStep::~OneStep() = default;

numbers::StepRun OneStep::run() {
  return {.net = options_.is_f64 ? *wide_ : *trainer_->net,
          .make = [this](amp::StepObserver& observer) { make(observer); },
          .title = options_.title};
}

void OneStep::make(amp::StepObserver& observer) {
  manual_seed(options_.run.seed);
  const auto begin = std::chrono::steady_clock::now();
  if (options_.is_f64) {
    numbers::make_step(*wide_, training_loss(options_.run), batch_, observer);
  } else {
    passing_->next = &observer;
    trainer_->model.train_step()(batch_);
    passing_->next = nullptr;
  }
  ms_ = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
}

double seconds_in_f64(const RunOptions& options, const ExampleKind& example,
                      std::int64_t examples) {
  const auto net = make_model(options, example.shape, example.classes);
  const nn::Inference inference(*net);
  CountProducts products;
  {
    const ListenToKernels listening(products);
    static_cast<void>((*net)(zero_examples(example.shape, 1, net->device())));
  }
  // The backward pass has twice the products of the forward pass.
  return 3 * products.flops() * static_cast<double>(examples) / (kPlainFlops * num_threads());
}

}  // namespace mezzo::train
