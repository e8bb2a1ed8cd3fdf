// Combines the objects that train in a run.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "mezzo/amp/gradient_statistics.h"
#include "mezzo/nn/loss.h"
#include "mezzo/numbers/activation_statistics.h"
#include "mezzo/numbers/dump.h"
#include "mezzo/numbers/first_overflow.h"
#include "mezzo/train/model.h"
#include "mezzo/train/optimizer_of.h"
#include "mezzo/train/run.h"
#include "mezzo/tune/plan_watch.h"

namespace mezzo::train {

// Functions that are called during steps.
struct TrainerHooks {
  std::function<void(amp::StepPhase)> on_phase{};
  // For RunOptions::check_first_overflow.
  std::function<void(const numbers::OverflowFinding&)> on_overflow{};
  // For RunOptions::histogram_every.
  std::function<void(const numbers::ActivationStatistics&)> on_counted{};
  // For RunOptions::dump.
  std::function<void(const numbers::StepDumper&)> on_dump{};
  // A further observer of the steps; must outlive the trainer.
  amp::StepObserver* observer = nullptr;
};

// Network, optimizer and model of a run, for examples of that shape: images or sequences of tokens,
// as in ExampleKind.
struct Trainer {
  Trainer(const RunOptions& options, const Shape& example, std::int64_t classes,
          const TrainerHooks& hooks = {});

  std::unique_ptr<nn::Module> net;
  amp::Policy policy;
  std::unique_ptr<amp::GradientStatistics> statistics;         // null unless the options ask for it
  std::unique_ptr<numbers::ActivationStatistics> activations;  // likewise
  std::unique_ptr<numbers::FirstOverflow> overflow;            // likewise
  std::unique_ptr<numbers::StepDumper> dump;                   // likewise
  std::unique_ptr<tune::PlanWatch> watch;                      // likewise
  GroupedOptimizer optimizer;
  Model model;
};

// The loss of the training steps of a run: of classes, or of next tokens.
amp::LossFunction training_loss(const RunOptions& options);

// The loss that is evaluated; unlike in training, its labels are not smoothed.
nn::CrossEntropyLoss evaluation_loss(const LossOptions& options, Device device);

// The number of images, or of sequences, in a step, over all processes.
std::int64_t images_of_step(const RunOptions& options);

}  // namespace mezzo::train
