#include "mezzo/train/run.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "mezzo/amp/autocast.h"
#include "mezzo/amp/plan.h"
#include "mezzo/core/log.h"
#include "mezzo/core/random.h"
#include "mezzo/data/loader.h"
#include "mezzo/data/token_batches.h"
#include "mezzo/models/model.h"
#include "mezzo/nn/inference.h"
#include "mezzo/nn/loss.h"
#include "mezzo/ops/exact_sums.h"
#include "mezzo/train/configuration.h"
#include "mezzo/train/example.h"
#include "mezzo/train/fine_tuning.h"
#include "mezzo/train/metrics.h"
#include "mezzo/train/model.h"
#include "mezzo/train/model_checkpoint.h"
#include "mezzo/train/plan_in_use.h"
#include "mezzo/train/run_reporter.h"
#include "mezzo/train/run_watchers.h"
#include "mezzo/train/trainer.h"

namespace mezzo::train {
namespace {

// The best epoch is that with the best accuracy or, where none is measured, the least loss.
CheckpointConfig checkpoint_config(const RunOptions& options) {
  const CheckpointingOptions& said = options.checkpoints;
  const char* const best = models::predicts_tokens(options.model) ? "loss" : "accuracy";
  return {.folder = said.folder,
          .every_steps = said.every.value_or(0),
          .keep = said.keep.value_or(CheckpointConfig{}.keep),
          .best = said.keep_best ? best : ""};
}

// Before the first step of this call.
void check_dump_step(const RunOptions& options, const FitState& state) {
  if (!options.dump.step.has_value()) return;
  const std::int64_t step = *options.dump.step;
  check_arg(step > state.step && step <= state.total_steps, "--dump", "step ", step,
            " is not made: this run makes steps ", state.step + 1, " to ", state.total_steps);
}

// `is_trained` becomes true with the last step, which comes before a batch that fails.
RunResult train(Trainer& trainer, const RunOptions& options, const DataPair& data,
                RunObserver& observer, RunWatchers& watchers, bool& is_trained) {
  const auto loader = training_batches(options, data);
  const auto test_loader = test_batches(options, data);
  const std::int64_t all_steps = options.epochs * loader->steps_per_epoch();
  const std::int64_t total_steps = std::min(all_steps, options.steps.value_or(all_steps));
  const Schedule schedule = schedule_of(options, loader->steps_per_epoch(), total_steps);
  RunReporter reporter(options, schedule, trainer.optimizer, data.train.get(), observer);
  std::optional<ModelCheckpoint> checkpoints;
  // Also at the end of an epoch, since another process may have requested it.
  const auto begin = [&trainer, &options](FitState& state) {
    if (trainer.overflow != nullptr) trainer.overflow->set_steps_before(state.step);
    if (trainer.dump != nullptr) trainer.dump->set_steps_before(state.step);
    check_dump_step(options, state);
  };
  LambdaCallback watch({.on_train_begin = begin,
                        .on_step_end =
                            [&is_trained](FitState& state) {
                              is_trained = state.stop || state.step == state.total_steps;
                            },
                        .on_batch_failed = [&](FitState&) { is_trained = reporter.has_stepped(); },
                        .on_train_end = [&is_trained](FitState&) { is_trained = true; }});
  std::optional<PlanInUse> plan;
  FitOptions fit{.callbacks = {&reporter, &watch},
                 .steps = total_steps,
                 .validation = test_loader.get(),
                 .validation_every = options.watch.eval_every.value_or(0)};
  if (options.plan != nullptr) {
    fit.callbacks.push_back(&plan.emplace(trainer, options, observer));
  }
  watchers.append_to(fit.callbacks);
  if (!options.checkpoints.folder.empty()) {
    fit.callbacks.push_back(&checkpoints.emplace(checkpoint_config(options)));
    if (options.checkpoints.resume) fit.resume = options.checkpoints.folder;
  }
  RunResult result = reporter.result(trainer.model.fit(options.epochs, *loader, fit));
  result.early_stop = watchers.early_stop();
  if (result.early_stop.has_value()) result.stopped = false;
  if (!reporter.has_evaluated() && !result.stopped) {
    const auto average = watchers.use_average();
    result.test = RunReporter::evaluation_of(trainer.model.eval(*test_loader));
  }
  return result;
}

bool goes_on(const CheckpointingOptions& options) {
  return options.resume && !io::list_checkpoints(options.folder).empty();
}

RunOptions resolve(RunOptions options, const DataPair& data) {
  fit_to_data(options, data);
  set_class_weights(options.loss, data);
  if (goes_on(options.checkpoints))
    options.fine_tuning.weights.clear();  // the checkpoint brings other weights
  return options;
}

}  // namespace

amp::GradScaler make_scaler(const LossScaling& scaling, const amp::Policy& policy) {
  using Kind = LossScaling::Kind;
  const Kind kind = scaling.kind_for(policy);
  if (kind == Kind::kNone) return amp::GradScaler({}, false);
  if (kind == Kind::kDynamic) return amp::GradScaler();
  return amp::GradScaler(amp::fixed_loss_scale(scaling.scale));
}

namespace {

models::ModelConfig config_of(const RunOptions& options, const Shape& example,
                              std::int64_t classes) {
  models::ModelConfig config{.zero_init_residual = options.zero_init_residual};
  config.num_classes = classes;
  if (example.rank() == 1) {
    config.tokens = example[0];
  } else {
    config.in_channels = example[0];
    config.image_size = example[1];
  }
  return config;
}

}  // namespace

std::unique_ptr<nn::Module> make_model(const RunOptions& options, const Shape& example,
                                       std::int64_t classes) {
  manual_seed(options.seed);
  auto net = models::create(options.model, config_of(options, example, classes));
  load_weights(*net, options.fine_tuning);
  nn::freeze(*net, options.fine_tuning.freeze);
  // Weights are drawn on the host, so that every device gets the same ones.
  net->to(options.device);
  return net;
}

amp::Policy apply_precision(nn::Module& net, const RunOptions& options, const Shape& example) {
  if (options.plan != nullptr) {
    amp::check_plan_fits(net, *options.plan, zero_examples(example, 1, net.device()));
    return amp::apply_plan(net, *options.plan);
  }
  amp::Policy policy = amp::apply_options(net, options.policy, options.precision);
  if (policy.rules == nullptr) return policy;
  const amp::Plan plan = amp::make_plan(net, zero_examples(example, 1, net.device()), policy);
  for (const std::string& op : plan.named_without_calls(policy)) {
    logging::warn_once(
        concat("[amp] ", options.model, " does not call `", op,
               "`: its rule changes nothing. `mezzo plan` shows what the model calls"));
  }
  return policy;
}

RunResult run(const RunOptions& options, const DataPair& data, RunObserver& observer,
              std::unique_ptr<nn::Module>* trained) {
  check_options(options);
  const ExactSums sums(options.exact_sums || are_sums_exact());
  const RunOptions resolved = resolve(options, data);
  const ExampleKind example = example_of(resolved, data);
  const auto tell = [&observer](const numbers::OverflowFinding& finding) {
    observer.on_first_overflow(finding);
  };
  const auto tell_counts = [&observer](const numbers::ActivationStatistics& statistics) {
    observer.on_counted(statistics);
  };
  const auto tell_of_dump = [&observer](const numbers::StepDumper& dump) {
    observer.on_dump({.step = dump.step(), .folder = dump.folder(), .bytes = dump.bytes()});
  };
  Trainer trainer(resolved, example.shape, example.classes,
                  {.on_overflow = tell, .on_counted = tell_counts, .on_dump = tell_of_dump});
  RunWatchers watchers(resolved, observer);
  const auto hand_over = [&] {
    watchers.finish(*trainer.net);
    if (trainer.activations != nullptr) observer.on_activations(*trainer.activations);
    if (trainer.statistics != nullptr) observer.on_gradients(*trainer.statistics);
    if (trained != nullptr) *trained = std::move(trainer.net);
  };
  if (trainer.statistics != nullptr) observer.on_counting(*trainer.statistics);
  bool is_trained = false;
  RunResult result;
  try {
    result = train(trainer, resolved, data, observer, watchers, is_trained);
  } catch (...) {
    if (is_trained) hand_over();
    throw;
  }
  hand_over();
  return result;
}

namespace {

// Mean loss and, for classes, accuracy over an epoch of the source.
Evaluation evaluate_batches(nn::Module& net, data::BatchSource& source,
                            const amp::LossFunction& loss_of, const EvaluateOptions& options) {
  const nn::Inference inference(net);
  const bool has_classes = !loss_of.has_classes_last();
  MeanLoss loss;
  TopK accuracy;
  for (data::Batch batch; source.next(batch);) {
    const Tensor labels = batch.labels.to(net.device());
    const Tensor logits = amp::forward(net, batch.images.to(net.device()), options.policy);
    if (options.on_logits) options.on_logits(logits);
    // As in training: an Autocast region around the call applies to the network only.
    const amp::NoAutocast outside;
    const amp::BatchLoss of_batch = loss_of.of_batch(logits, labels);
    loss.update(logits, labels, of_batch);
    if (has_classes) accuracy.update(logits, labels, of_batch);
  }
  return {.loss = loss.value(), .accuracy = has_classes ? accuracy.value() : std::nan("")};
}

}  // namespace

Evaluation evaluate(nn::Module& net, const data::Dataset& dataset, const EvaluateOptions& options) {
  data::DataLoader loader(dataset, {.batch_size = options.batch_size,
                                    .shuffle = false,
                                    .workers = options.workers,
                                    .device = net.device()});
  return evaluate_batches(net, loader, evaluation_loss(options.loss, net.device()), options);
}

Evaluation evaluate(nn::Module& net, const data::TokenSet& tokens, std::int64_t length,
                    const EvaluateOptions& options) {
  data::TokenBatches batches(
      tokens, {.batch_size = options.batch_size, .length = length, .shuffle = false});
  return evaluate_batches(net, batches, nn::NextTokenLoss(), options);
}

}  // namespace mezzo::train
