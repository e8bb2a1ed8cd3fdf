#include "mezzo/train/trainer.h"

#include <algorithm>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "mezzo/core/cpu.h"
#include "mezzo/core/log.h"
#include "mezzo/core/parallel.h"
#include "mezzo/graph/train_step.h"
#include "mezzo/models/model.h"
#include "mezzo/nn/batch_norm.h"
#include "mezzo/nn/recompute.h"
#include "mezzo/train/fine_tuning.h"

namespace mezzo::train {
namespace {

// Null unless the options request statistics.
std::unique_ptr<amp::GradientStatistics> make_statistics(nn::Module& net,
                                                         const RunOptions& options) {
  if (options.histogram_every == 0) return nullptr;
  return std::make_unique<amp::GradientStatistics>(
      net, amp::GradientStatistics::Options{.every = options.histogram_every,
                                            .activations = options.activation_gradients});
}

// Null unless the options request statistics.
std::unique_ptr<numbers::ActivationStatistics> make_activation_statistics(
    nn::Module& net, const RunOptions& options, const TrainerHooks& hooks) {
  if (options.histogram_every == 0) return nullptr;
  return std::make_unique<numbers::ActivationStatistics>(
      net, numbers::ActivationStatistics::Options{.every = options.histogram_every,
                                                  .on_counted = hooks.on_counted});
}

// Null unless the options ask for it.
std::unique_ptr<numbers::FirstOverflow> make_overflow_check(
    nn::Module& net, const RunOptions& options,
    const std::function<void(const numbers::OverflowFinding&)>& on_found) {
  if (!options.check_first_overflow) return nullptr;
  const bool is_dynamic =
      options.loss_scale.kind_for(options.policy) == LossScaling::Kind::kDynamic;
  return std::make_unique<numbers::FirstOverflow>(
      net, numbers::FirstOverflow::Options{.on_found = on_found, .is_scale_dynamic = is_dynamic});
}

// Null unless the options ask for it. Of several processes the first one writes.
std::unique_ptr<numbers::StepDumper> make_dump(
    nn::Module& net, const RunOptions& options,
    const std::function<void(const numbers::StepDumper&)>& on_written) {
  const bool is_first = options.processes == nullptr || options.processes->rank() == 0;
  if (!options.dump.step.has_value() || !is_first) return nullptr;
  return std::make_unique<numbers::StepDumper>(
      net, options.dump.folder,
      numbers::StepDumper::DumpOptions{
          .step = *options.dump.step,
          .title = options.plan != nullptr ? concat(options.model, " plan ", options.plan_file)
                                           : concat(options.model, " ", options.policy.level, "/",
                                                    options.policy.named_dtype()),
          .made_by = options.dump.made_by,
          .on_written = on_written});
}

// Null without a plan, and for one whose numbers have the range of f32.
std::unique_ptr<tune::PlanWatch> make_watch(const RunOptions& options) {
  if (options.plan == nullptr || options.watch_every == 0) return nullptr;
  const bool has_narrow = std::ranges::any_of(options.plan->rows, [](const amp::PlanRow& row) {
    return is_lower(row.dtype) && has_narrow_range(row.dtype);
  });
  if (!has_narrow) return nullptr;
  return std::make_unique<tune::PlanWatch>(*options.plan, options.watch_every);
}

// A plan's dtypes hold anywhere, but it is fast where its times were measured.
void warn_of_other_machine(const RunOptions& options) {
  if (options.plan == nullptr || options.plan->machine.empty()) return;
  const auto threads_text = [](std::int64_t threads) {
    return threads > 0 ? concat(" with ", threads, threads == 1 ? " thread" : " threads") : "";
  };
  const amp::PrecisionPlan& plan = *options.plan;
  const std::int64_t threads = num_threads();
  if (plan.machine == cpu_name() && (plan.threads == 0 || plan.threads == threads)) return;
  logging::warn_once(concat("[plan] ", options.plan_file, " was made on ", plan.machine,
                            threads_text(plan.threads), ", and this is ", cpu_name(),
                            threads_text(threads),
                            ": it is obeyed, but its times are not those of this run"));
}

// Those that there are.
std::vector<amp::StepObserver*> list_of(std::initializer_list<amp::StepObserver*> observers) {
  std::vector<amp::StepObserver*> list = observers;
  std::erase(list, nullptr);
  return list;
}

// The loss of classes, or of next tokens.
amp::LossFunction loss_for(const std::string& model, CrossEntropyOptions options) {
  if (models::predicts_tokens(model)) return nn::NextTokenLoss(std::move(options));
  return nn::CrossEntropyLoss(std::move(options));
}

// The accuracy of the likeliest next token says little, and takes longer to find than the loss.
std::vector<std::string> metrics_for(const std::string& model) {
  if (models::predicts_tokens(model)) return {"loss"};
  return {"loss", "accuracy"};
}

void recompute_matching(nn::Module& net, const std::vector<std::string>& patterns) {
  for (const std::string& pattern : patterns) {
    const std::vector<nn::Module*> modules = net.matching(pattern);
    check_arg(!modules.empty(), "recompute", "no module matches `", pattern,
              "`. `mezzo plan` shows the paths");
    for (nn::Module* module : modules) nn::recompute(*module);
  }
}

void synchronize_norms(nn::Module& net, const RunOptions& options) {
  if (!options.sync_batchnorm || options.processes == nullptr) return;
  const std::int64_t layers = nn::convert_sync_batchnorm(net, *options.processes);
  check_arg(layers > 0, "--sync-batchnorm", options.model,
            " has no batch normalization. Leave it out");
}

}  // namespace

Trainer::Trainer(const RunOptions& options, const Shape& example, std::int64_t classes,
                 const TrainerHooks& hooks)
    : net(make_model(options, example, classes)),
      policy(apply_precision(*net, options, example)),
      statistics(make_statistics(*net, options)),
      activations(make_activation_statistics(*net, options, hooks)),
      overflow(make_overflow_check(*net, options, hooks.on_overflow)),
      dump(make_dump(*net, options, hooks.on_dump)),
      watch(make_watch(options)),
      optimizer(make_optimizer(*net, options.optimizer)),
      model(amp::TrainStep(*net, training_loss(options), *optimizer.optimizer,
                           make_scaler(options.loss_scale, options.policy),
                           {.policy = policy,
                            .micro_batches = options.optimizer.accumulate,
                            .max_grad_norm = options.optimizer.clip,
                            .check_gradients = options.check_first_overflow,
                            .statistics = statistics.get(),
                            .observers = list_of({activations.get(), overflow.get(), dump.get(),
                                                  watch.get(), hooks.observer}),
                            .processes = options.processes,
                            .reduce_dtype = options.reduce_dtype,
                            .shard_optimizer = options.shard_optimizer,
                            .on_phase = hooks.on_phase}),
            loss_for(options.model,
                     {.class_weights = class_weights_of(options.loss, options.device)}),
            metrics_for(options.model)) {
  warn_of_other_machine(options);
  recompute_matching(*net, options.recompute);
  synchronize_norms(*net, options);
  if (options.graph) model.train_step().set_execution(graph::captured(*net));
}

amp::LossFunction training_loss(const RunOptions& options) {
  return loss_for(options.model, {.label_smoothing = options.loss.label_smoothing,
                                  .class_weights = class_weights_of(options.loss, options.device)});
}

nn::CrossEntropyLoss evaluation_loss(const LossOptions& options, Device device) {
  return nn::CrossEntropyLoss({.class_weights = class_weights_of(options, device)});
}

std::int64_t images_of_step(const RunOptions& options) {
  return options.batch_size * options.process_count();
}

}  // namespace mezzo::train
