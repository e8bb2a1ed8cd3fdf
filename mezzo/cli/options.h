// The options that several subcommands share.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "mezzo/ops/scaling_recipe.h"
#include "mezzo/train/run.h"

namespace mezzo::cli {

// The headings under which `--help` lists options, in the order in which commands add them.
namespace heading {
inline constexpr const char* kModel = "Model";
inline constexpr const char* kData = "Data";
inline constexpr const char* kPrecision = "Precision";
inline constexpr const char* kFineTuning = "Fine-tuning";
inline constexpr const char* kOptimizer = "Optimizer";
inline constexpr const char* kSchedule = "Schedule";
inline constexpr const char* kWatch = "Validation";
inline constexpr const char* kExecution = "Execution";
inline constexpr const char* kCheckpoints = "Checkpoints";
inline constexpr const char* kOutput = "Output";
inline constexpr const char* kText = "Text";
}  // namespace heading

// The optimizer's options as given.
struct OptimizerWords {
  std::string kind = "sgd";
  std::optional<double> lr{}, momentum{}, weight_decay{}, eps{}, clip{};
  std::string betas{};  // `0.9,0.999`
  std::string state = "f32";
  bool nesterov = false;
  std::vector<std::string> lr_of{};  // `fc=0.1`
};

// The learning-rate options as given.
struct ScheduleWords {
  std::string kind = "constant";
  std::optional<double> lr_init{}, lr_end{}, lr_gamma{}, lr_factor{};
  std::optional<std::int64_t> lr_patience{}, lr_cooldown{};
};

// The command line before it is interpreted.
struct SharedOptions {
  train::RunOptions run{};
  std::string level = "O2";
  std::string recipe{};                // of eight bits; empty: current
  std::optional<std::string> dtype{};  // default: bf16
  std::string plan{};                  // a file
  std::optional<std::int64_t> watch_every{};
  std::string keep_batchnorm{};
  std::string loss_scale{};
  std::string check{};                 // `first-overflow`
  std::optional<std::int64_t> dump{};  // the step
  std::string dump_dir{};              // default: dump-STEP
  std::string head{};
  std::string class_weights{};  // `balanced`, numbers or a file
  OptimizerWords optimizer{};
  ScheduleWords schedule{};
  std::optional<std::string> monitor{};  // default: loss
  std::string device = "cpu";
  std::string reduce_dtype = "f32";
  std::optional<std::int64_t> epochs{};  // default: one, or as many as --steps takes
  bool tf32 = false;
  std::string bad_images = "error";
  std::optional<std::int64_t> threads{};  // default: as many as there are cores
  std::string json{};
  std::string report{};
  std::string logdir{};
  std::optional<std::int64_t> histogram_every{};
  bool quiet = false;

  // The run options, with the texts above parsed into them. Throws ArgumentError for unknown names.
  train::RunOptions parsed() const;
};

// What --model offers: every model, or only those that there are data sets for, of images or
// tokens.
enum class OfferedModels : std::uint8_t { kAll, kWithData };

// --model
void add_model_option(CLI::App& command, train::RunOptions& run, OfferedModels offered);
// --model --amp --dtype --keep-f32 --lower --keep-batchnorm-fp32 --plan: a model and its precision.
void add_precision_options(CLI::App& command, SharedOptions& options, OfferedModels offered);
// Like add_precision_options(), without --amp, for a command that takes several levels.
void add_precision_options_but_level(CLI::App& command, SharedOptions& options,
                                     OfferedModels offered);
// --plan
CLI::Option* add_plan_option(CLI::App& command, SharedOptions& options);
// --watch-every
void add_plan_watch_option(CLI::App& command, SharedOptions& options);
// --loss-scale
void add_loss_scale_option(CLI::App& command, SharedOptions& options);
// --data --image-size --tokens --bad-images --workers: the images and their size, or the tokens.
void add_data_options(CLI::App& command, SharedOptions& options);
// --tokens
void add_tokens_option(CLI::App& command, train::RunOptions& run);
// --batch-size, for training and for evaluation.
void add_batch_size_option(CLI::App& command, SharedOptions& options);
// The two groups above, and --epochs --steps --no-shuffle --no-augment --mixup --cutmix: the input
// of a run, and its length.
void add_training_data_options(CLI::App& command, SharedOptions& options);
// --weights --head --freeze --zero-init-residual: the initial weights, and which parts stay fixed.
void add_beginning_options(CLI::App& command, SharedOptions& options);
// --freeze
void add_freeze_option(CLI::App& command, SharedOptions& options);
// --optimizer --lr --lr-of --momentum --betas --accumulate --clip --label-smoothing ...: the
// update.
void add_optimizer_options(CLI::App& command, SharedOptions& options);
// --class-weights
void add_class_weights_option(CLI::App& command, SharedOptions& options);
// --lr-schedule --lr-init --lr-end --lr-gamma --lr-factor --warmup-epochs ...
void add_schedule_options(CLI::App& command, SharedOptions& options);
// --eval-every --ema --ema-warmup --early-stop --monitor: when to validate, and reactions to the
// validation.
void add_watch_options(CLI::App& command, SharedOptions& options);
// --graph --recompute --seed, --sync-batchnorm --reduce-dtype --shard-optimizer of several
// processes, and the options of add_device_options(): how steps run.
void add_execution_options(CLI::App& command, SharedOptions& options);
// --device --tf32 --exact --threads
void add_device_options(CLI::App& command, SharedOptions& options);
// --checkpoint-dir --checkpoint-every --keep --keep-best --resume
void add_checkpoint_options(CLI::App& command, SharedOptions& options);
// --logdir --report --check --histogram-every --activation-gradients
void add_report_options(CLI::App& command, SharedOptions& options);
// --dump --dump-dir
void add_dump_options(CLI::App& command, SharedOptions& options);
// --json --quiet
void add_output_options(CLI::App& command, SharedOptions& options);

// Sets the epochs of a run, each of that many examples, to as many as --steps takes, if only
// --steps was given.
void fit_epochs(const SharedOptions& options, std::int64_t examples, train::RunOptions& run);

// `O2/bf16`, `O2/e4m3`, `O2/e4m3/mxfp8`.
std::string text_of(const amp::Policy& policy);
// The same of a run's level, or `plan plan.json` with the name of its plan's file.
std::string precision_of(const train::RunOptions& run);
// Parses the policy of such a text, or of `O2` alone; `scaling` is the recipe of eight bits unless
// the text says another. Throws ArgumentError that begins with
// `option` and names the valid values, also if `dtype`, from --dtype, contradicts the text.
amp::Policy parse_policy(const std::string& text, const std::optional<std::string>& dtype,
                         const char* option = "--amp", Scaling scaling = Scaling::kCurrent);
// The recipe of that name. Throws ArgumentError, which begins with `option`, for an unknown one.
Scaling scaling_named(const std::string& name, const char* option);
// That of --recipe. Throws ArgumentError for an unknown one.
Scaling scaling_of(const SharedOptions& options);

// Applies --threads, --tf32 and --exact.
void apply_machine_options(const SharedOptions& options);

}  // namespace mezzo::cli
