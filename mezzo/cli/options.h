// Options that several subcommands share.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <CLI/CLI.hpp>

#include "mezzo/train/run.h"

namespace mezzo::cli {

// What the command line said, before it is understood.
struct SharedOptions {
  train::RunOptions run{};
  std::string level = "O2";
  std::optional<std::string> dtype{};  // bf16
  std::string keep_batchnorm{};
  std::string loss_scale{};
  std::string schedule = "constant";
  std::optional<double> lr_init{}, lr_end{}, lr_gamma{};
  std::string device = "cpu";
  std::optional<std::int64_t> epochs{};  // one, or as many as --steps takes
  bool tf32 = false;
  std::optional<std::int64_t> threads{};  // as many as there are cores
  std::string json{};
  std::string report{};
  std::string logdir{};
  std::optional<std::int64_t> histogram_every{};
  bool quiet = false;

  // The run options with the texts above parsed into them. Throws ArgumentError for unknown names.
  train::RunOptions parsed() const;
};

// Those of add_precision_options(), --loss-scale --batch-size --seed --threads --json --quiet ...
void add_model_options(CLI::App& command, SharedOptions& options);
// --model
void add_model_option(CLI::App& command, train::RunOptions& run);
// --amp
void add_level_option(CLI::App& command, SharedOptions& options);
// --model --dtype --keep-f32 --lower --keep-batchnorm-fp32: what names a model and its precision.
void add_precision_options(CLI::App& command, SharedOptions& options);
// --data --image-size --workers: what names images and their size.
void add_data_options(CLI::App& command, SharedOptions& options);
// Those, and --epochs --lr-schedule --no-augment ...: what only training on data needs.
void add_training_options(CLI::App& command, SharedOptions& options);

// Sets the epochs of a run to those that --steps takes, if only that was given.
void fit_epochs(const SharedOptions& options, const data::Dataset& images, train::RunOptions& run);

// --checkpoint-dir --checkpoint-every --keep --keep-best --resume
void add_checkpoint_options(CLI::App& command, SharedOptions& options);
// --logdir --report --histogram-every --activation-gradients
void add_report_options(CLI::App& command, SharedOptions& options);

// `O2/bf16`.
std::string text_of(const amp::Policy& policy);
// The policy of such a text, or of `O2` alone. Throws ArgumentError that begins with `option` and
// names what exists, and if `dtype`, which --dtype gave, is another than that of the text.
amp::Policy parse_policy(const std::string& text, const std::optional<std::string>& dtype,
                         const char* option = "--amp");

// --batch-size, the same for training and for evaluation.
void add_batch_size_option(CLI::App& command, SharedOptions& options);
// --threads --json --quiet
void add_output_options(CLI::App& command, SharedOptions& options);
// --device --tf32
void add_device_options(CLI::App& command, SharedOptions& options);

// Applies --threads and --tf32.
void apply_machine_options(const SharedOptions& options);

}  // namespace mezzo::cli
