// Models, batches and steps for tests of comparisons.
#pragma once

#include <memory>
#include <string>

#include "mezzo/amp/module_precision.h"
#include "mezzo/amp/train_step.h"
#include "mezzo/core/random.h"
#include "mezzo/graph/train_step.h"
#include "mezzo/models/model.h"
#include "mezzo/nn/loss.h"
#include "mezzo/numbers/compare.h"
#include "mezzo/numbers/make_step.h"
#include "mezzo/ops/cast.h"
#include "mezzo/optim/sgd.h"

namespace mezzo::numbers {

inline const amp::Policy kAllF32{.level = amp::Level::kO0};
inline const amp::Policy kO2Bf16{.level = amp::Level::kO2, .lower = DType::kBf16};
inline const amp::Policy kO2F16{.level = amp::Level::kO2, .lower = DType::kF16};

// A model of tests with its batch and loss.
struct Subject {
  explicit Subject(const std::string& model_name, std::uint64_t seed = 3)
      : name(model_name), config(models::usual_config(model_name)) {
    manual_seed(seed);
    if (config.is_for_tokens()) {
      config.tokens = 12;
    } else {
      config.image_size = std::min<std::int64_t>(config.image_size, 32);
    }
    net = models::create(name, config);
    Generator generator(7);
    if (config.is_for_tokens()) {
      batch.inputs = {integers({3, config.tokens}, config.vocabulary)};
    } else {
      batch.inputs = {
          to_format(randn({4, config.in_channels, config.image_size, config.image_size}, generator),
                    Format::kChannelsLast)};
    }
    if (models::predicts_tokens(name)) {
      batch.labels = {integers({3, config.tokens}, config.vocabulary)};
      loss = nn::NextTokenLoss();
    } else {
      batch.labels = {integers({batch.inputs[0].shape()[0]}, config.num_classes)};
      loss = nn::CrossEntropyLoss();
    }
  }

  // 0, 7, 14, ... below the limit, as all tests' numbers the same in each run.
  static Tensor integers(const Shape& shape, std::int64_t limit) {
    Tensor result = empty(shape, DType::kI64);
    auto* elements = result.mutable_data<std::int64_t>();
    for (std::int64_t i = 0; i < result.numel(); ++i) elements[i] = 7 * i % limit;
    return result;
  }

  std::string name;
  models::ModelConfig config;
  std::unique_ptr<nn::Module> net;
  Batch batch;
  amp::LossFunction loss = nullptr;
};

struct StepSettings {
  amp::Policy policy{.level = amp::Level::kO0};
  bool is_captured = false;
  double scale = 0;                          // 0: none
  std::vector<amp::StepObserver*> before{};  // observers that come before that of the comparison
  std::int64_t micro_batches = 1;
  std::uint64_t seed = 3;
};

// A training step of a model.
class SubjectRun {
 public:
  SubjectRun(const std::string& model, const StepSettings& settings)
      : subject_(model, settings.seed), settings_(settings) {}

  StepRun run() {
    return {.net = *subject_.net,
            .make = [this](amp::StepObserver& observer) { make(observer); },
            .title = subject_.name};
  }

 private:
  void make(amp::StepObserver& observer) {
    manual_seed(5);
    optim::Sgd optimizer(subject_.net->parameters(), {.lr = 0.01});
    std::vector<amp::StepObserver*> observers = settings_.before;
    observers.push_back(&observer);
    amp::GradScaler scaler = settings_.scale > 0
                                 ? amp::GradScaler(amp::fixed_loss_scale(settings_.scale))
                                 : amp::GradScaler({}, false);
    amp::TrainStep step(*subject_.net, subject_.loss, optimizer, std::move(scaler),
                        {.policy = settings_.policy,
                         .micro_batches = settings_.micro_batches,
                         .observers = observers});
    if (settings_.is_captured) step.set_execution(graph::captured(*subject_.net));
    step(subject_.batch);
  }

  Subject subject_;
  StepSettings settings_;
};

inline Comparison compare_settings(const std::string& model, const StepSettings& a,
                                   const StepSettings& b) {
  SubjectRun run_a(model, a);
  SubjectRun run_b(model, b);
  return compare_runs(run_a.run(), run_b.run());
}

// The f64 shadow of a model as A.
inline Comparison compare_with_f64(const std::string& model, const StepSettings& b) {
  Subject wide(model);
  to_f64(*wide.net);
  const StepRun shadow{.net = *wide.net, .make = [&](amp::StepObserver& observer) {
                         manual_seed(5);
                         make_step(*wide.net, wide.loss, to_f64(wide.batch), observer);
                       }};
  SubjectRun run_b(model, b);
  return compare_runs(shadow, run_b.run());
}

inline std::string all_lines(const Comparison& comparison) {
  std::string text;
  for (const std::string& line : comparison.lines()) text += line + "\n";
  return text;
}

}  // namespace mezzo::numbers
