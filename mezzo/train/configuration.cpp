#include "mezzo/train/configuration.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <sstream>
#include <system_error>
#include <utility>

#include "mezzo/amp/eight_bits.h"
#include "mezzo/core/error.h"
#include "mezzo/io/crc32c.h"
#include "mezzo/io/utf8.h"
#include "mezzo/ops/exact_sums.h"
#include "mezzo/train/metrics.h"
#include "mezzo/train/optimizer_names.h"
#include "mezzo/train/run.h"

namespace mezzo::train {
namespace {

constexpr const char* kConfiguration = "configuration";
constexpr const char* kBatchSizeOption = "--batch-size";
constexpr const char* kStepSizeOption = "--batch-size times processes";
constexpr const char* kRunProcesses = "processes";
constexpr const char* kAccumulate = "--accumulate";
constexpr const char* kSyncBatchNorm = "--sync-batchnorm";
constexpr const char* kMixup = "--mixup";
constexpr const char* kFreeze = "--freeze";
constexpr const char* kKeepF32 = "--keep-f32";
constexpr const char* kLower = "--lower";
constexpr const char* kCutmix = "--cutmix";
constexpr const char* kDecayMatrices = "--decay-matrices";
constexpr const char* kWarmupSteps = "--warmup-steps";
constexpr const char* kExact = "--exact";
constexpr const char* kRecipe = "--recipe";
constexpr const char* kOptimizerState = "--optimizer-state";
constexpr const char* kPlan = "--plan";
constexpr const char* kWatchEvery = "--watch-every";
constexpr const char* kReduceDType = "--reduce-dtype";

// The values of options with which checkpoints of versions without these options were written.
const std::map<std::string, std::string>& in_earlier_versions() {
  static const std::map<std::string, std::string> values{{kSyncBatchNorm, "off"},
                                                         {kMixup, "0"},
                                                         {kCutmix, "0"},
                                                         {"--optimizer", "sgd"},
                                                         {"--nesterov", "off"},
                                                         {"--lr-of", ""},
                                                         {kAccumulate, "1"},
                                                         {"--clip", ""},
                                                         {"--class-weights", ""},
                                                         {kFreeze, ""},
                                                         {"--lr-factor", ""},
                                                         {"--lr-patience", ""},
                                                         {"--lr-cooldown", ""},
                                                         {"--monitor", ""},
                                                         {"--ema", ""},
                                                         {"--ema-warmup", "off"},
                                                         {"--tokens", "0"},
                                                         {kDecayMatrices, "off"},
                                                         {kWarmupSteps, ""},
                                                         {kExact, "off"},
                                                         {kRecipe, ""},
                                                         {kPlan, ""},
                                                         {kWatchEvery, ""},
                                                         {kOptimizerState, name_of(DType::kF32)},
                                                         {kReduceDType, name_of(DType::kF32)}};
  return values;
}

// The list sorted and without duplicates, since the order of such lists is irrelevant.
std::string text_of(std::vector<std::string> names) {
  std::ranges::sort(names);
  names.erase(std::unique(names.begin(), names.end()), names.end());
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ",") + name;
  return text;
}

std::string text_of(const std::vector<RateOf>& rates) {
  std::string text;
  for (const RateOf& rate : rates)
    text += concat(text.empty() ? "" : ",", rate.pattern, "=", rate.lr);
  return text;
}

// Its name, and what is not usual for that name.
std::string text_of(const ScalingRecipe& recipe) {
  const ScalingRecipe usual = usual_recipe(recipe.scaling);
  std::string text = name_of(recipe.scaling);
  if (recipe.dtype != usual.dtype) text += concat(" ", recipe.dtype);
  if (recipe.grad_dtype != usual.grad_dtype) text += concat(" gradients ", recipe.grad_dtype);
  if (recipe.margin != usual.margin) text += concat(" margin ", recipe.margin);
  if (recipe.history != usual.history) text += concat(" history ", recipe.history);
  if (recipe.wide_weight_grad) text += " wide weight gradients";
  return text;
}

std::string text_of(const LossOptions& loss) {
  if (loss.balances_classes) return "balanced";  // as numbers once the data are known
  std::string text;
  for (const double weight : loss.class_weights) text += concat(text.empty() ? "" : ",", weight);
  return text;
}

// A short name of what a plan makes a network compute; the order of its rows is irrelevant. Empty
// for none.
std::string text_of(const amp::PrecisionPlan* plan) {
  if (plan == nullptr) return "";
  std::vector<std::string> rows;
  for (const amp::PlanRow& row : plan->rows) {
    rows.push_back(concat(row.text(), " ", row.dtype, row.exact ? " exact\n" : "\n"));
  }
  std::ranges::sort(rows);
  std::uint32_t hash = 0;
  for (const std::string& row : rows) hash = io::crc32c(row, hash);
  return concat(rows.size(), " operations, ", hash);
}

// Only the options that the optimizer reads; another optimizer is refused by its name.
void add_optimizer(Configuration& result, const OptimizerOptions& options) {
  result["--optimizer"] = name_of(options.kind);
  result["--lr"] = concat(options.lr);
  result["--lr-of"] = text_of(options.lr_of);
  result["--weight-decay"] = concat(options.weight_decay);
  result[kOptimizerState] = name_of(options.state_dtype);
  result[kDecayMatrices] = options.decay_matrices ? "on" : "off";
  result[kAccumulate] = concat(options.accumulate);
  result["--clip"] = options.clip.has_value() ? concat(*options.clip) : "";
  const OptimizerInfo& info = info_of(options.kind);
  if (info.momentum.has_value()) result["--momentum"] = concat(options.momentum);
  if (info.nesterov.has_value()) result["--nesterov"] = options.nesterov ? "on" : "off";
  if (info.betas.has_value()) result["--betas"] = concat(options.beta1, ",", options.beta2);
  if (info.eps.has_value()) result["--eps"] = concat(options.eps);
}

}  // namespace

void RunOptions::use_plan(amp::PrecisionPlan of_network, std::string file) {
  policy = of_network.policy();
  plan = std::make_shared<const amp::PrecisionPlan>(std::move(of_network));
  plan_file = std::move(file);
}

void set_image_size(RunOptions& options, const Shape& image) {
  if (image[1] == image[2]) options.image_size = image[1];
}

namespace {

// A run with warm-up epochs should have a warm-up.
ScheduleKind kind_of(const ScheduleOptions& options) {
  const bool has_warmup = options.warmup_epochs > 0 || options.warmup_steps.value_or(0) > 0;
  const bool climbs = options.kind == ScheduleKind::kSteps && has_warmup;
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
          .warmup_steps = options.schedule.warmup_steps.value_or(
              std::llround(options.schedule.warmup_epochs * static_cast<double>(steps_per_epoch)))};
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
  // In f32's range gradients do not underflow, so scaling is not needed.
  return has_narrow_range(policy.dtype()) ? Kind::kDynamic : Kind::kNone;
}

Configuration configuration_of(const RunOptions& options) {
  // Naming the default explicitly counts as the same.
  const LossScaling scaling{options.loss_scale.kind_for(options.policy), options.loss_scale.scale};
  Configuration result{{"--model", options.model},
                       {"--data", io::escape_invalid_utf8(options.data)},
                       {"--amp", amp::name_of(options.policy.level)},
                       {"--dtype", name_of(options.policy.named_dtype())},
                       {kStepSizeOption, concat(options.batch_size * options.process_count())},
                       {kRunProcesses, concat(options.process_count())},
                       {"--image-size", concat(options.image_size)},
                       {"--tokens", concat(options.tokens)},
                       {"--lr-schedule", name_of(options.schedule.kind)},
                       {"--lr-init", concat(options.schedule.lr_init)},
                       {"--lr-end", concat(options.schedule.lr_end)},
                       {"--lr-gamma", concat(options.schedule.lr_gamma)},
                       {"--warmup-epochs", concat(options.schedule.warmup_epochs)},
                       {"--label-smoothing", concat(options.loss.label_smoothing)},
                       {"--class-weights", text_of(options.loss)},
                       {kFreeze, text_of(options.fine_tuning.freeze)},
                       {"--seed", concat(options.seed)},
                       {"shuffling", options.shuffle ? "on" : "off"},
                       {"augmentation", options.augment ? "on" : "off"},
                       {kMixup, concat(options.mix.mixup)},
                       {kCutmix, concat(options.mix.cutmix)},
                       {"--loss-scale", text_of(scaling)},
                       {"--keep-batchnorm-fp32", text_of(options.precision.keep_batchnorm_fp32)},
                       {kKeepF32, text_of(options.precision.keep_float32)},
                       {kLower, text_of(options.precision.lower)}};
  const auto& eight_bits = options.policy.eight_bits;
  result[kRecipe] = eight_bits != nullptr ? text_of(eight_bits->recipe) : "";
  add_optimizer(result, options.optimizer);
  result[kPlan] = text_of(options.plan.get());
  // When the watch looks decides what it finds.
  const bool is_watched = options.plan != nullptr && options.policy.dtype() == DType::kF16;
  result[kWatchEvery] = is_watched ? concat(options.watch_every) : "";
  const std::optional<std::int64_t> warmup = options.schedule.warmup_steps;
  result[kWarmupSteps] = warmup.has_value() ? concat(*warmup) : "";
  const bool is_plateau = options.schedule.kind == ScheduleKind::kPlateau;
  const auto of_plateau = [&](const auto& value) { return is_plateau ? concat(value) : ""; };
  result["--lr-factor"] = of_plateau(options.schedule.lr_factor);
  result["--lr-patience"] = of_plateau(options.schedule.lr_patience);
  result["--lr-cooldown"] = of_plateau(options.schedule.lr_cooldown);
  result["--monitor"] = of_plateau(metric_name(options.watch.monitor));
  result["--ema"] = options.watch.ema.has_value() ? concat(*options.watch.ema) : "";
  result["--ema-warmup"] = options.watch.ema_warmup ? "on" : "off";
  // Only at this level may graph mode round in other places.
  const bool is_painted = options.graph && options.policy.level == amp::Level::kAuto;
  result["--graph at --amp auto"] = is_painted ? "on" : "off";
  // It may come from the environment, too.
  result[kExact] = options.exact_sums || are_sums_exact() ? "on" : "off";
  result[kSyncBatchNorm] = options.sync_batchnorm ? "on" : "off";
  result[kReduceDType] = name_of(options.reduce_dtype);
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
  // Appending a component that normalisation removes makes every folder end in one slash.
  const auto folder = std::filesystem::path(data.substr(colon + 1)) / ".";
  return data.substr(0, colon + 1) + folder.lexically_normal().string();
}

// Earlier versions wrote this into the loader's part of a checkpoint.
std::int64_t processes_of_earlier_version(const io::Checkpoint& checkpoint) {
  const auto loader = checkpoint.values.find("loader");
  const bool has_number = loader != checkpoint.values.end() && loader->second.contains("processes");
  return has_number ? checkpoint.value<std::int64_t>("loader", "processes") : 1;
}

// And the batch size of one process into this one.
std::string step_size_of_earlier_version(const io::Checkpoint& checkpoint) {
  const auto& text = checkpoint.value<std::string>(kConfiguration, kBatchSizeOption);
  std::int64_t size = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), size);
  check_arg(parsed.ec == std::errc() && size > 0, "--resume", "the checkpoint says ",
            kBatchSizeOption, " `", text, "`, which is no number. Use another one");
  return concat(size * processes_of_earlier_version(checkpoint));
}

std::string begun_with(const io::Checkpoint& checkpoint, const std::string& name) {
  const auto section = checkpoint.values.find(kConfiguration);
  const bool is_missing = section != checkpoint.values.end() && !section->second.contains(name);
  const auto earlier = in_earlier_versions().find(name);
  if (name == kRunProcesses && is_missing) return concat(processes_of_earlier_version(checkpoint));
  const bool has_batch_size = is_missing && section->second.contains(kBatchSizeOption);
  if (name == kStepSizeOption && has_batch_size) return step_size_of_earlier_version(checkpoint);
  return is_missing && earlier != in_earlier_versions().end()
             ? earlier->second
             : checkpoint.value<std::string>(kConfiguration, name);
}

// Earlier versions wrote names in the given order, with a comma after the last.
std::string as_list(const std::string& text) {
  std::vector<std::string> names;
  std::istringstream all(text);
  for (std::string name; std::getline(all, name, ',');) {
    if (!name.empty()) names.push_back(name);
  }
  return text_of(std::move(names));
}

bool is_list(const std::string& name) {
  return name == kFreeze || name == kKeepF32 || name == kLower;
}

bool is_same(const std::string& name, const std::string& before, const std::string& now) {
  if (name == "--data") return in_one_spelling(before) == in_one_spelling(now);
  // Earlier versions wrote 0 for the data's own size.
  if (name == "--image-size" && before == "0") return true;
  if (is_list(name)) return as_list(before) == as_list(now);
  return before == now;
}

void check_option(const io::Checkpoint& checkpoint, const std::string& name,
                  const std::string& value) {
  const std::string before = begun_with(checkpoint, name);
  check_arg(is_same(name, before, value), "--resume", "the run was started with ", name, " ",
            in_words(before), ", not ", in_words(value),
            ". Give the same options, or another --checkpoint-dir");
}

// Another number of processes may go on. With it changes what parts a step has and what they
// exchange; one process has the norms of all images in any case.
bool may_change(const io::Checkpoint& checkpoint, const Configuration& now,
                const std::string& name) {
  const auto processes = now.find(kRunProcesses);
  if (processes == now.end()) return false;
  const std::string before = begun_with(checkpoint, kRunProcesses);
  const bool are_others = before != processes->second;
  const bool was_or_is_one = before == "1" || processes->second == "1";
  return name == kRunProcesses || (name == kSyncBatchNorm && was_or_is_one) ||
         ((name == kAccumulate || name == kReduceDType) && are_others);
}

}  // namespace

void check_configuration(const io::Checkpoint& checkpoint, const Configuration& now) {
  // Checked first, since a run with another optimizer does not have all of this one's settings.
  const auto optimizer = now.find("--optimizer");
  if (optimizer != now.end()) check_option(checkpoint, optimizer->first, optimizer->second);
  for (const auto& [name, value] : now) {
    if (!may_change(checkpoint, now, name)) check_option(checkpoint, name, value);
  }
}

}  // namespace mezzo::train
