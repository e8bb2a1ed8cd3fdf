// Options of what a run begins with, its optimizer, its loss and its learning rates.
#include "mezzo/cli/option_words.h"

namespace mezzo::cli {
namespace {

train::ScheduleKind parse_schedule_name(const std::string& text) {
  const auto kind = train::parse_schedule(text);
  check_arg(kind.has_value(), "--lr-schedule", "unknown schedule `", text, "`. There are ",
            train::schedule_names());
  return *kind;
}

}  // namespace

void set_schedule(const SharedOptions& options, train::RunOptions& run) {
  using Kind = train::ScheduleKind;
  const ScheduleWords& said = options.schedule;
  train::ScheduleOptions& schedule = run.schedule;
  schedule.kind = parse_schedule_name(said.kind);
  set_if_read(said.lr_init, schedule.warmup_epochs > 0, "--lr-init", "--warmup-epochs",
              schedule.lr_init);
  set_if_read(said.lr_end, schedule.kind == Kind::kLinear || schedule.kind == Kind::kHalfCosine,
              "--lr-end", "--lr-schedule linear and half-cosine", schedule.lr_end);
  set_if_read(said.lr_gamma, schedule.kind == Kind::kExponential, "--lr-gamma",
              "--lr-schedule exponential", schedule.lr_gamma);
}

void add_beginning_options(CLI::App& command, SharedOptions& options) {
  command
      .add_option("--weights", options.run.fine_tuning.weights,
                  "Start from a safetensors file, a checkpoint or a folder of them")
      ->group(heading::kModel);
  command
      .add_flag("--zero-init-residual", options.run.zero_init_residual,
                "Residual blocks begin by handing on what they are given")
      ->group(heading::kModel);
}

void add_optimizer_options(CLI::App& command, SharedOptions& options) {
  const auto add = [&](const char* name, double& value, const char* help) {
    command.add_option(name, value, help)->capture_default_str()->group(heading::kOptimizer);
  };
  train::OptimizerOptions& optimizer = options.run.optimizer;
  add("--lr", optimizer.lr, "Learning rate");
  add("--momentum", optimizer.momentum, "Momentum of SGD");
  add("--weight-decay", optimizer.weight_decay, "L2 penalty");
  add("--label-smoothing", options.run.loss.label_smoothing,
      "Part of the target spread over all classes");
}

void add_schedule_options(CLI::App& command, SharedOptions& options) {
  const auto group = [](CLI::Option* option) { option->group(heading::kSchedule); };
  ScheduleWords& said = options.schedule;
  train::ScheduleOptions& schedule = options.run.schedule;
  group(command.add_option("--lr-schedule", said.kind, train::schedule_names())
            ->capture_default_str());
  const auto add_number = [&](const char* name, std::optional<double>& number, const char* help,
                              double otherwise) {
    group(command.add_option(name, number, concat(help, " (", otherwise, ")")));
  };
  group(
      command
          .add_option("--warmup-epochs", schedule.warmup_epochs, "Epochs in which the rate climbs")
          ->capture_default_str());
  add_number("--lr-init", said.lr_init, "Where the warm-up begins", schedule.lr_init);
  add_number("--lr-end", said.lr_end, "Of linear, half-cosine", schedule.lr_end);
  add_number("--lr-gamma", said.lr_gamma, "Of exponential", schedule.lr_gamma);
}

}  // namespace mezzo::cli
