#include "mezzo/train/configuration.h"

#include <cmath>
#include <filesystem>

#include "mezzo/core/error.h"
#include "mezzo/io/utf8.h"
#include "mezzo/optim/learning_rate.h"
#include "mezzo/train/run.h"

namespace mezzo::train {
namespace {

using optim::is_rate;

constexpr const char* kConfiguration = "configuration";
constexpr const char* kSyncBatchNorm = "--sync-batchnorm";

}  // namespace

void check_options(const RunOptions& options) {
  check_arg(options.epochs >= 1 && options.epochs <= kMostEpochs, "--epochs",
            "must be at least 1 and at most ", kMostEpochs, ": ", options.epochs);
  check_arg(options.steps.value_or(1) >= 1, "--steps",
            "must be at least 1: ", options.steps.value_or(1));
  check_arg(options.batch_size >= 1, "--batch-size", "must be at least 1: ", options.batch_size);
  check_arg(is_rate(options.optimizer.lr) && options.optimizer.lr > 0, "--lr",
            "must be positive and finite in f32: ", options.optimizer.lr);
  check_arg(options.process_count() == 1 || options.device.is_cpu(), "--device", options.device,
            ": several processes train together on CPUs only. Leave it out, or start one process");
  check_arg(options.optimizer.momentum >= 0 && options.optimizer.momentum < 1, "--momentum",
            "must be in [0, 1): ", options.optimizer.momentum);
  check_arg(is_rate(options.optimizer.weight_decay), "--weight-decay",
            "must not be negative, and finite in f32: ", options.optimizer.weight_decay);
  check_arg(
      options.schedule.warmup_epochs >= 0 && options.schedule.warmup_epochs <= double{kMostEpochs},
      "--warmup-epochs", "must not be negative, and at most ", kMostEpochs, ": ",
      options.schedule.warmup_epochs);
  check_arg(is_rate(options.schedule.lr_init), "--lr-init",
            "must not be negative, and finite in f32: ", options.schedule.lr_init);
  check_arg(is_rate(options.schedule.lr_end), "--lr-end",
            "must not be negative, and finite in f32: ", options.schedule.lr_end);
  check_arg(options.schedule.lr_gamma > 0 && options.schedule.lr_gamma <= 1, "--lr-gamma",
            "must be in (0, 1]: ", options.schedule.lr_gamma);
  check_arg(options.loss.label_smoothing >= 0 && options.loss.label_smoothing <= 1,
            "--label-smoothing", "must be in [0, 1]: ", options.loss.label_smoothing);
  check_arg(!options.zero_init_residual || options.fine_tuning.weights.empty(),
            "--zero-init-residual",
            "says how weights begin, and --weights brings others. Leave one of the two out");
  const std::int64_t every = options.checkpoints.every.value_or(0);
  check_arg(every >= 0, "--checkpoint-every", "must not be negative: ", every);
  if (options.policy.level == amp::Level::kO0) {
    check_arg(
        options.precision.lower.empty() && options.precision.keep_batchnorm_fp32.value_or(true),
        "--lower",
        "and --keep-batchnorm-fp32 false have no place at --amp O0, which is all f32. Use "
        "O1, auto, O2 or O3");
  }
  const std::int64_t keep = options.checkpoints.keep.value_or(0);
  check_arg(keep >= 0, "--keep", "must not be negative: ", keep);
  check_arg(!options.checkpoints.folder.empty() ||
                (!options.checkpoints.resume && !options.checkpoints.every.has_value() &&
                 !options.checkpoints.keep.has_value() && !options.checkpoints.keep_best),
            "--checkpoint-dir",
            "is missing: --resume, --checkpoint-every, --keep and --keep-best need it");
  check_arg(options.histogram_every >= 0, "--histogram-every",
            "must not be negative: ", options.histogram_every);
}

void set_image_size(RunOptions& options, const Shape& image) {
  if (image[1] == image[2]) options.image_size = image[1];
}

namespace {

// Whoever asks a run for a warm-up means to have one.
ScheduleKind kind_of(const ScheduleOptions& options) {
  const bool climbs = options.kind == ScheduleKind::kSteps && options.warmup_epochs > 0;
  return climbs ? ScheduleKind::kWarmSteps : options.kind;
}

}  // namespace

Schedule schedule_of(const RunOptions& options, std::int64_t steps_per_epoch,
                     std::int64_t total_steps) {
  return {.kind = kind_of(options.schedule),
          .lr = options.optimizer.lr,
          .init_lr = options.schedule.lr_init,
          .end_lr = options.schedule.lr_end,
          .gamma = options.schedule.lr_gamma,
          .steps_per_epoch = steps_per_epoch,
          .total_steps = total_steps,
          .warmup_steps =
              std::llround(options.schedule.warmup_epochs * static_cast<double>(steps_per_epoch))};
}

namespace {

std::string text_of(const std::optional<bool>& flag) {
  if (!flag.has_value()) return "";
  return *flag ? "true" : "false";
}

std::string in_words(const std::string& value) { return value.empty() ? "(not given)" : value; }

}  // namespace

std::string text_of(const LossScaling& scaling) {
  switch (scaling.kind) {
    case LossScaling::Kind::kDefault: return "";
    case LossScaling::Kind::kNone: return "none";
    case LossScaling::Kind::kDynamic: return "dynamic";
    case LossScaling::Kind::kStatic: return concat(scaling.scale);
  }
  return "";
}

LossScaling::Kind LossScaling::kind_for(const amp::Policy& policy) const {
  if (kind != Kind::kDefault) return kind;
  // bf16 has f32's range: its gradients do not underflow, so there is nothing to scale.
  return policy.dtype() == DType::kF16 ? Kind::kDynamic : Kind::kNone;
}

Configuration configuration_of(const RunOptions& options) {
  // What is the default may be said, too.
  const LossScaling scaling{options.loss_scale.kind_for(options.policy), options.loss_scale.scale};
  Configuration result{{"--model", options.model},
                       {"--data", io::escape_invalid_utf8(options.data)},
                       {"--amp", amp::name_of(options.policy.level)},
                       {"--dtype", name_of(options.policy.dtype())},
                       {"--batch-size", concat(options.batch_size)},
                       {"--image-size", concat(options.image_size)},
                       {"--lr", concat(options.optimizer.lr)},
                       {"--momentum", concat(options.optimizer.momentum)},
                       {"--weight-decay", concat(options.optimizer.weight_decay)},
                       {"--lr-schedule", name_of(options.schedule.kind)},
                       {"--lr-init", concat(options.schedule.lr_init)},
                       {"--lr-end", concat(options.schedule.lr_end)},
                       {"--lr-gamma", concat(options.schedule.lr_gamma)},
                       {"--warmup-epochs", concat(options.schedule.warmup_epochs)},
                       {"--label-smoothing", concat(options.loss.label_smoothing)},
                       {"--seed", concat(options.seed)},
                       {"shuffling", options.shuffle ? "on" : "off"},
                       {"augmentation", options.augment ? "on" : "off"},
                       {"--loss-scale", text_of(scaling)},
                       {"--keep-batchnorm-fp32", text_of(options.precision.keep_batchnorm_fp32)},
                       {"--keep-f32", ""},
                       {"--lower", ""}};
  // The only level at which graph mode may round in other places.
  const bool is_painted = options.graph && options.policy.level == amp::Level::kAuto;
  result["--graph at --amp auto"] = is_painted ? "on" : "off";
  result[kSyncBatchNorm] = options.sync_batchnorm && options.process_count() > 1 ? "on" : "off";
  for (const std::string& name : options.precision.keep_float32) result["--keep-f32"] += name + ",";
  for (const std::string& name : options.precision.lower) result["--lower"] += name + ",";
  return result;
}

void add_configuration(io::Checkpoint& checkpoint, const Configuration& configuration) {
  for (const auto& [name, value] : configuration) checkpoint.values[kConfiguration][name] = value;
}

namespace {

// A folder may be spelt in several ways: `mnist:./ds/` is `mnist:ds`.
std::string in_one_spelling(const std::string& data) {
  const std::size_t colon = data.find(':');
  if (colon == std::string::npos) return data;
  // With a part behind it that goes away again, a folder ends in one slash.
  const auto folder = std::filesystem::path(data.substr(colon + 1)) / ".";
  return data.substr(0, colon + 1) + folder.lexically_normal().string();
}

// Earlier versions had, and wrote, no synchronized batch norm.
std::string begun_with(const io::Checkpoint& checkpoint, const std::string& name) {
  const auto section = checkpoint.values.find(kConfiguration);
  const bool is_missing = section != checkpoint.values.end() && !section->second.contains(name);
  return is_missing && name == kSyncBatchNorm ? "off"
                                              : checkpoint.value<std::string>(kConfiguration, name);
}

bool is_same(const std::string& name, const std::string& before, const std::string& now) {
  if (name == "--data") return in_one_spelling(before) == in_one_spelling(now);
  // Earlier versions wrote 0 for the data's own size.
  if (name == "--image-size" && before == "0") return true;
  return before == now;
}

}  // namespace

void check_configuration(const io::Checkpoint& checkpoint, const Configuration& now) {
  for (const auto& [name, value] : now) {
    const std::string before = begun_with(checkpoint, name);
    check_arg(is_same(name, before, value), "--resume", "the run was begun with ", name, " ",
              in_words(before), ", not ", in_words(value),
              ". Give the same options, or another --checkpoint-dir");
  }
}

}  // namespace mezzo::train
