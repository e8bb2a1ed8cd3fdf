// Checks options of a run that do not depend on model and data.
#include <algorithm>

#include "mezzo/core/error.h"
#include "mezzo/optim/learning_rate.h"
#include "mezzo/train/configuration.h"
#include "mezzo/train/metrics.h"
#include "mezzo/train/run.h"

namespace mezzo::train {
namespace {

using optim::is_rate;

void check_rate(const char* option, double rate) {
  check_arg(is_rate(rate) && rate > 0, option, "must be positive and finite in f32: ", rate);
}

void check_not_negative(const char* option, double value) {
  check_arg(is_rate(value), option, "must be 0 or more, and finite in f32: ", value);
}

void check_beta(double beta) {
  check_arg(beta >= 0 && beta < 1, "--betas", "must be in [0, 1): ", beta);
}

// eps must not be 0 in f32 either. A parameter without a gradient, such as one before a ReLU that
// is always 0, would be divided 0 by 0, and one NaN spreads to all. The optimizers themselves allow
// it, as PyTorch's do, for callers who know their gradients.
void check_eps(double eps) {
  check_rate("--eps", eps);
  check_arg(static_cast<float>(eps) > 0, "--eps", "is 0 in f32, where updates are computed: ", eps,
            ". Use 1e-8, or any number of at least 1e-38");
}

void check_optimizer(const OptimizerOptions& options, std::int64_t batch_size) {
  check_rate("--lr", options.lr);
  check_arg(options.momentum >= 0 && options.momentum < 1, "--momentum",
            "must be in [0, 1): ", options.momentum);
  check_arg(!options.nesterov || options.momentum > 0, "--nesterov",
            "needs a momentum, and --momentum is 0. Leave one of the two out");
  check_beta(options.beta1);
  check_beta(options.beta2);
  check_eps(options.eps);
  check_not_negative("--weight-decay", options.weight_decay);
  check_arg(!options.decay_matrices || options.weight_decay > 0, "--decay-matrices",
            "says what decays, and --weight-decay is 0. Leave one of the two out");
  const bool has_state = options.kind != OptimizerKind::kSgd || options.momentum > 0;
  check_arg(has_state || options.state_dtype == DType::kF32, "--optimizer-state",
            "says how state is kept, and SGD without momentum has none. Leave it out");
  check_arg(options.accumulate >= 1, "--accumulate", "must be at least 1: ", options.accumulate);
  check_arg(options.accumulate <= batch_size, "--accumulate", "a batch of ", batch_size,
            " examples has no ", options.accumulate,
            " parts. Use at most as many as the batch has examples");
  if (options.clip.has_value()) check_rate("--clip", *options.clip);
  for (const RateOf& rate : options.lr_of) check_rate("--lr-of", rate.lr);
}

void check_schedule(const ScheduleOptions& options) {
  check_arg(options.warmup_epochs >= 0 && options.warmup_epochs <= double{kMostEpochs},
            "--warmup-epochs", "must be 0 or more, and at most ", kMostEpochs, ": ",
            options.warmup_epochs);
  check_arg(options.warmup_steps.value_or(0) >= 0, "--warmup-steps",
            "must not be negative: ", options.warmup_steps.value_or(0));
  check_arg(!options.warmup_steps.has_value() || options.warmup_epochs == 0, "--warmup-steps",
            "and --warmup-epochs both say how long the warm-up is. Leave one of the two out");
  check_arg(!options.warmup_steps.has_value() || options.kind != ScheduleKind::kPlateau,
            "--warmup-steps", "is not for --lr-schedule plateau, which counts epochs. Use ",
            "--warmup-epochs");
  check_not_negative("--lr-init", options.lr_init);
  check_not_negative("--lr-end", options.lr_end);
  check_arg(options.lr_gamma > 0 && options.lr_gamma <= 1, "--lr-gamma",
            "must be in (0, 1]: ", options.lr_gamma);
  check_arg(options.lr_factor >= 0 && options.lr_factor < 1, "--lr-factor",
            "must be in [0, 1): ", options.lr_factor);
  check_arg(options.lr_patience >= 0, "--lr-patience",
            "must not be negative: ", options.lr_patience);
  check_arg(options.lr_cooldown >= 0, "--lr-cooldown",
            "must not be negative: ", options.lr_cooldown);
}

void check_watch(const WatchOptions& watch) {
  const double decay = watch.ema.value_or(0);
  check_arg(decay >= 0 && decay < 1, "--ema", "must be in [0, 1): ", decay);
  const std::int64_t patience = watch.early_stop.value_or(1);
  check_arg(patience >= 1, "--early-stop", "must be at least 1: ", patience);
  check_arg(watch.eval_every.value_or(0) >= 0, "--eval-every",
            "must not be negative: ", watch.eval_every.value_or(0));
  const std::string metric = metric_name(watch.monitor);
  check_arg(metric == "loss" || metric == "accuracy", "--monitor", "`", watch.monitor,
            "` is neither loss nor accuracy. Use one of them");
}

void check_loss(const LossOptions& options) {
  check_arg(options.label_smoothing >= 0 && options.label_smoothing <= 1, "--label-smoothing",
            "must be in [0, 1]: ", options.label_smoothing);
  for (const double weight : options.class_weights) check_not_negative("--class-weights", weight);
  const bool counts_some =
      std::ranges::any_of(options.class_weights, [](double weight) { return weight > 0; });
  check_arg(options.class_weights.empty() || counts_some, "--class-weights",
            "are all 0: no image would count. Make at least one positive");
}

void check_beginning(const RunOptions& options) {
  const FineTuning& tuning = options.fine_tuning;
  check_arg(!options.zero_init_residual || tuning.weights.empty(), "--zero-init-residual",
            "sets initial weights, which --weights would replace. Leave one of the two out");
  check_arg(!tuning.new_head || !tuning.weights.empty(), "--head",
            "new needs --weights: without it every layer starts from random values. Give "
            "--weights, or leave it out");
}

// Anything beside the plan would contradict it.
void check_plan(const RunOptions& options) {
  check_arg(options.watch_every >= 0, "--watch-every",
            "must not be negative: ", options.watch_every);
  const amp::MixedPrecisionOptions& said = options.precision;
  check_arg(options.plan == nullptr || (said.keep_float32.empty() && said.lower.empty() &&
                                        !said.keep_batchnorm_fp32.has_value()),
            "--plan", options.plan_file,
            " says the precision of every operation, and so would --keep-f32, --lower and "
            "--keep-batchnorm-fp32. Change the plan, or leave it out");
}

void check_checkpoints(const CheckpointingOptions& options) {
  const std::int64_t every = options.every.value_or(0);
  check_arg(every >= 0, "--checkpoint-every", "must not be negative: ", every);
  const std::int64_t keep = options.keep.value_or(0);
  check_arg(keep >= 0, "--keep", "must not be negative: ", keep);
  check_arg(!options.folder.empty() || (!options.resume && !options.every.has_value() &&
                                        !options.keep.has_value() && !options.keep_best),
            "--checkpoint-dir",
            "is missing: --resume, --checkpoint-every, --keep and --keep-best need it");
}

}  // namespace

void check_options(const RunOptions& options) {
  check_arg(options.epochs >= 1 && options.epochs <= kMostEpochs, "--epochs",
            "must be at least 1 and at most ", kMostEpochs, ": ", options.epochs);
  check_arg(options.steps.value_or(1) >= 1, "--steps",
            "must be at least 1: ", options.steps.value_or(1));
  check_arg(options.batch_size >= 1, "--batch-size", "must be at least 1: ", options.batch_size);
  check_optimizer(options.optimizer, options.batch_size);
  check_schedule(options.schedule);
  check_loss(options.loss);
  check_watch(options.watch);
  check_not_negative("--mixup", options.mix.mixup);
  check_not_negative("--cutmix", options.mix.cutmix);
  check_beginning(options);
  if (options.policy.level == amp::Level::kO0) {
    check_arg(
        options.precision.lower.empty() && options.precision.keep_batchnorm_fp32.value_or(true),
        "--lower",
        "and --keep-batchnorm-fp32 false do nothing at --amp O0, which is all f32. Use O1, auto, "
        "O2 or O3");
  }
  check_plan(options);
  check_checkpoints(options.checkpoints);
  check_arg(options.histogram_every >= 0, "--histogram-every",
            "must not be negative: ", options.histogram_every);
}

}  // namespace mezzo::train
