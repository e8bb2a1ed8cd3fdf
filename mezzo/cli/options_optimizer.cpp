// Options for the update: the optimizer and its learning rates.
#include <algorithm>
#include <tuple>
#include <utility>

#include "mezzo/cli/offered_values.h"
#include "mezzo/cli/option_words.h"
#include "mezzo/ops/update/narrow_state.h"
#include "mezzo/train/optimizer_names.h"

namespace mezzo::cli {
namespace {

train::ScheduleKind parse_schedule_name(const std::string& text) {
  const auto kind = train::parse_schedule(text);
  check_arg(kind.has_value(), "--lr-schedule", "unknown schedule `", text,
            "`. Known schedules are ", train::schedule_names());
  return *kind;
}

train::OptimizerKind parse_kind(const std::string& text) {
  const auto kind = train::parse_optimizer(text);
  check_arg(kind.has_value(), "--optimizer", "unknown optimizer `", text,
            "`. Known optimizers are ", train::optimizer_names());
  return *kind;
}

std::optional<std::pair<double, double>> parse_betas(const std::string& text) {
  if (text.empty()) return std::nullopt;
  const std::vector<double> betas = numbers_in(text);
  check_arg(betas.size() == 2, "--betas", "`", text,
            "` is not two numbers. Write them like 0.9,0.999");
  return std::pair{betas[0], betas[1]};
}

DType parse_state(const std::string& text) {
  const std::optional<DType> dtype = parse_dtype(text);
  check_arg(dtype.has_value() && can_hold_state(*dtype), "--optimizer-state", "`", text,
            "` is not a dtype of optimizer state. Use ", kStateDTypes);
  return *dtype;
}

using Info = train::OptimizerInfo;

// The optimizers that read a setting: `sgd and rmsprop`.
template <class Value>
std::string names_of_readers(std::optional<Value> Info::*setting) {
  return train::optimizer_names([&](const Info& info) { return (info.*setting).has_value(); });
}

std::string text_of_default(double value) { return concat(value); }
std::string text_of_default(const std::pair<double, double>& values) {
  return concat(values.first, ",", values.second);
}
template <class Value>
std::string text_of_default(const std::optional<Value>& value) {
  return value.has_value() ? text_of_default(*value) : "";
}

// The defaults of a setting: `0.01; lion: 0.0001`. The first is that of all that are not named.
template <class Value>
std::string defaults_of(Value Info::*setting) {
  std::vector<std::pair<std::string, std::string>> defaults;  // each with those that have it
  for (const Info& info : train::optimizers()) {
    const std::string value = text_of_default(info.*setting);
    if (value.empty()) continue;
    const auto same =
        std::ranges::find(defaults, value, [](const auto& entry) { return entry.first; });
    if (same == defaults.end()) {
      defaults.emplace_back(value, info.name);
    } else {
      same->second += concat(", ", info.name);
    }
  }
  std::string text;
  for (const auto& [value, names] : defaults) {
    text += text.empty() ? value : concat("; ", names, ": ", value);
  }
  return text;
}

// Parses `fc=0.1`. The pattern may contain `=`.
train::RateOf parse_rate_of(const std::string& text) {
  const std::size_t equals = text.rfind('=');
  const std::vector<double> rate =
      equals != std::string::npos ? numbers_in(text.substr(equals + 1)) : std::vector<double>{};
  check_arg(equals != 0 && rate.size() == 1, "--lr-of", "`", text,
            "` is not a learning rate of a module. Write it like fc=0.1");
  return {text.substr(0, equals), rate[0]};
}

}  // namespace

void set_optimizer(const SharedOptions& options, train::RunOptions& run) {
  const OptimizerWords& said = options.optimizer;
  const train::OptimizerKind kind = parse_kind(said.kind);
  const train::OptimizerInfo& reads = train::info_of(kind);
  train::OptimizerOptions result = train::usual_options(kind);
  result.accumulate = run.optimizer.accumulate;
  result.decay_matrices = run.optimizer.decay_matrices;
  result.lr = said.lr.value_or(result.lr);
  result.weight_decay = said.weight_decay.value_or(result.weight_decay);
  result.clip = said.clip;
  result.state_dtype = parse_state(said.state);
  const std::optional<bool> nesterov = said.nesterov ? std::optional(true) : std::nullopt;
  const auto set = [&reads](const char* option, const auto& given, auto setting, auto& value) {
    const std::string readers = "--optimizer " + names_of_readers(setting);
    set_if_read(given, (reads.*setting).has_value(), option, readers.c_str(), value);
  };
  set("--momentum", said.momentum, &Info::momentum, result.momentum);
  set("--nesterov", nesterov, &Info::nesterov, result.nesterov);
  std::pair<double, double> betas{result.beta1, result.beta2};
  set("--betas", parse_betas(said.betas), &Info::betas, betas);
  std::tie(result.beta1, result.beta2) = betas;
  set("--eps", said.eps, &Info::eps, result.eps);
  for (const std::string& text : said.lr_of) result.lr_of.push_back(parse_rate_of(text));
  run.optimizer = std::move(result);
}

void set_schedule(const SharedOptions& options, train::RunOptions& run) {
  using Kind = train::ScheduleKind;
  const ScheduleWords& said = options.schedule;
  train::ScheduleOptions& schedule = run.schedule;
  schedule.kind = parse_schedule_name(said.kind);
  const bool climbs = schedule.warmup_epochs > 0 || schedule.warmup_steps.value_or(0) > 0;
  set_if_read(said.lr_init, climbs, "--lr-init", "--warmup-epochs and --warmup-steps",
              schedule.lr_init);
  const bool is_plateau = schedule.kind == Kind::kPlateau;
  const bool has_end = schedule.kind == Kind::kLinear || schedule.kind == Kind::kHalfCosine;
  set_if_read(said.lr_end, has_end || is_plateau, "--lr-end",
              "--lr-schedule linear, half-cosine and plateau", schedule.lr_end);
  constexpr const char* kPlateau = "--lr-schedule plateau";
  set_if_read(said.lr_factor, is_plateau, "--lr-factor", kPlateau, schedule.lr_factor);
  set_if_read(said.lr_patience, is_plateau, "--lr-patience", kPlateau, schedule.lr_patience);
  set_if_read(said.lr_cooldown, is_plateau, "--lr-cooldown", kPlateau, schedule.lr_cooldown);
  set_if_read(said.lr_gamma, schedule.kind == Kind::kExponential, "--lr-gamma",
              "--lr-schedule exponential", schedule.lr_gamma);
}

void add_optimizer_options(CLI::App& command, SharedOptions& options) {
  const auto add = [](CLI::Option* option) { return option->group(heading::kOptimizer); };
  OptimizerWords& said = options.optimizer;
  const std::string kinds = train::optimizer_names();
  add(offer(command.add_option("--optimizer", said.kind, kinds), words_in(kinds)))
      ->capture_default_str();
  const auto add_setting = [&](const char* name, auto& value, const char* help, auto setting) {
    add(command.add_option(name, value, concat(help, " (", defaults_of(setting), ")")));
  };
  add_setting("--lr", said.lr, "Learning rate", &Info::lr);
  add(command.add_flag("--nesterov", said.nesterov,
                       "Nesterov momentum of " + names_of_readers(&Info::nesterov)));
  add_setting("--momentum", said.momentum, "Momentum", &Info::momentum);
  add_setting("--betas", said.betas, "Betas", &Info::betas);
  add_setting("--eps", said.eps, "Epsilon", &Info::eps);
  add_setting("--weight-decay", said.weight_decay, "Decay", &Info::weight_decay);
  add(command.add_flag("--decay-matrices", options.run.optimizer.decay_matrices,
                       "Decay only matrices"));
  add(offer(command.add_option("--optimizer-state", said.state, kStateDTypes),
            {"f32", "bf16", "e4m3"}))
      ->capture_default_str();
  add(command.add_option("--clip", said.clip, "Max gradient norm (none)"));
  add(command.add_option("--accumulate", options.run.optimizer.accumulate, "Micro-batches"))
      ->capture_default_str();
  add(command.add_option("--label-smoothing", options.run.loss.label_smoothing, "Smoothing factor"))
      ->capture_default_str();
  add(command.add_option("--lr-of", said.lr_of, "Rates of parts: fc=0.1"))->delimiter(',');
}

void add_schedule_options(CLI::App& command, SharedOptions& options) {
  const auto group = [](CLI::Option* option) { option->group(heading::kSchedule); };
  ScheduleWords& said = options.schedule;
  train::ScheduleOptions& schedule = options.run.schedule;
  const std::string kinds = train::schedule_names();
  group(offer(command.add_option("--lr-schedule", said.kind, kinds), words_in(kinds))
            ->capture_default_str());
  const auto add_number = [&](const char* name, auto& number, const char* help, auto otherwise) {
    group(command.add_option(name, number, concat(help, " (", otherwise, ")")));
  };
  group(command.add_option("--warmup-epochs", schedule.warmup_epochs, "Epochs of warm-up")
            ->capture_default_str());
  group(command.add_option("--warmup-steps", schedule.warmup_steps, "Steps of it, instead"));
  add_number("--lr-init", said.lr_init, "Warm-up's first rate", schedule.lr_init);
  add_number("--lr-end", said.lr_end, "Final or lowest rate", schedule.lr_end);
  add_number("--lr-gamma", said.lr_gamma, "Exponential decay", schedule.lr_gamma);
  add_number("--lr-factor", said.lr_factor, "Factor of plateau", schedule.lr_factor);
  add_number("--lr-patience", said.lr_patience, "Patience in epochs", schedule.lr_patience);
  add_number("--lr-cooldown", said.lr_cooldown, "Cooldown in epochs", schedule.lr_cooldown);
}

}  // namespace mezzo::cli
