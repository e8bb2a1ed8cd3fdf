#include "mezzo/cli/options.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <optional>

#include "mezzo/cli/strict_values.h"
#include "mezzo/core/device_backend.h"
#include "mezzo/core/parallel.h"
#include "mezzo/models/model.h"
#include "mezzo/ops/tf32.h"
#include "mezzo/train/configuration.h"

namespace mezzo::cli {
namespace {

train::LossScaling parse_loss_scale(const std::string& text) {
  using Kind = train::LossScaling::Kind;
  if (text.empty()) return {};
  if (text == "dynamic") return {.kind = Kind::kDynamic};
  if (text == "none") return {.kind = Kind::kNone};
  double scale = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), scale);
  check_arg(error == std::errc() && end == text.data() + text.size() && scale >= 1 &&
                scale <= double{std::numeric_limits<float>::max()},
            "--loss-scale", "`", text,
            "` is neither dynamic, none nor a number of at least 1 that is finite in f32");
  return {.kind = Kind::kStatic, .scale = scale};
}

// Empty for an option that was not given.
std::optional<bool> parse_flag(const char* option, const std::string& text) {
  if (text.empty()) return std::nullopt;
  check_arg(text == "true" || text == "false", option, "`", text,
            "` is neither true nor false. Say one of them");
  return text == "true";
}

train::ScheduleKind parse_schedule_name(const std::string& text) {
  const auto kind = train::parse_schedule(text);
  check_arg(kind.has_value(), "--lr-schedule", "unknown schedule `", text, "`. There are ",
            train::schedule_names());
  return *kind;
}

// A number of the schedule that was given is one that the schedule reads.
void set_if_read(const std::optional<double>& given, bool is_read, const char* option,
                 const char* reader, double& number) {
  check_arg(is_read || !given.has_value(), option, "is read by ", reader,
            " alone. Give that, or leave it out");
  number = given.value_or(number);
}

void set_schedule(const SharedOptions& options, train::RunOptions& run) {
  using Kind = train::ScheduleKind;
  run.schedule = parse_schedule_name(options.schedule);
  set_if_read(options.lr_init, run.warmup_epochs > 0, "--lr-init", "--warmup-epochs", run.lr_init);
  set_if_read(options.lr_end, run.schedule == Kind::kLinear || run.schedule == Kind::kHalfCosine,
              "--lr-end", "--lr-schedule linear and half-cosine", run.lr_end);
  set_if_read(options.lr_gamma, run.schedule == Kind::kExponential, "--lr-gamma",
              "--lr-schedule exponential", run.lr_gamma);
}

// A device that is not here is a wrong value like a folder that is not here: nothing has run yet.
Device parse_device_option(const std::string& text) {
  const std::optional<Device> device = parse_device(text);
  check_arg(device.has_value(), "--device", "unknown device `", text,
            "`. There are cpu, cuda and cuda:N");
  try {
    if (!device->is_cpu()) static_cast<void>(backend_of(*device));
  } catch (const UnsupportedError& error) {
    throw ArgumentError(error.what());
  }
  return *device;
}

}  // namespace

std::string text_of(const amp::Policy& policy) { return concat(policy.level, "/", policy.dtype()); }

amp::Policy parse_policy(const std::string& text, const std::optional<std::string>& dtype,
                         const char* option) {
  const std::size_t slash = text.find('/');
  const bool has_own = slash != std::string::npos;
  const auto level = amp::parse_level(text.substr(0, slash));
  check_arg(level.has_value(), option, "unknown level `", text,
            "`. There are O0, O1, auto, O2 and O3, also with a dtype: O2/f16");
  const std::string name = has_own ? text.substr(slash + 1) : dtype.value_or("bf16");
  check_arg(dtype.value_or(name) == name, "--dtype", "`", dtype.value_or(name),
            "` is not that of the level `", text, "`. Leave one of the two out");
  const auto lower = parse_dtype(name);
  const bool is_all_f32 = *level == amp::Level::kO0 && lower == DType::kF32;
  check_arg(lower.has_value() && (is_lower(*lower) || is_all_f32), has_own ? option : "--dtype",
            "`", name, "` is no lower precision. There are bf16 and f16");
  return {.level = *level, .lower = is_lower(*lower) ? *lower : DType::kBf16};
}

train::RunOptions SharedOptions::parsed() const {
  train::RunOptions result = run;
  result.policy = parse_policy(level, dtype);
  result.device = parse_device_option(device);
  result.precision.keep_batchnorm_fp32 = parse_flag("--keep-batchnorm-fp32", keep_batchnorm);
  result.loss_scale = parse_loss_scale(loss_scale);
  set_schedule(*this, result);
  result.epochs = epochs.value_or(result.epochs);
  check_arg(!report.empty() || (!histogram_every.has_value() && !run.activation_gradients),
            "--report",
            "is missing: --histogram-every and --activation-gradients gather what only ",
            "a report shows. Name a page, or leave them out");
  constexpr std::int64_t kHistogramEvery = 50;
  if (!report.empty()) result.histogram_every = histogram_every.value_or(kHistogramEvery);
  check_arg(
      !run.activation_gradients || result.histogram_every != 0, "--activation-gradients",
      "are counted with the others, which --histogram-every 0 turns off. Leave one of the two out");
  check_arg(result.workers >= 0, "--workers", "must not be negative: ", result.workers);
  train::check_options(result);
  return result;
}

void add_model_option(CLI::App& command, train::RunOptions& run) {
  std::string names;
  for (const std::string& name : models::names()) names += (names.empty() ? "" : ", ") + name;
  command.add_option("--model", run.model, "Network: " + names)->capture_default_str();
}

void add_precision_options(CLI::App& command, SharedOptions& options) {
  add_model_option(command, options.run);
  command.add_option("--dtype", options.dtype, "Lower precision: bf16 or f16 (bf16)");
  command
      .add_option("--keep-f32", options.run.precision.keep_float32,
                  "Operations and modules to compute in f32, e.g. batch_norm,fc,layer4.*")
      ->delimiter(',');
  command
      .add_option("--lower", options.run.precision.lower,
                  "Operations and modules to compute in 16 bits")
      ->delimiter(',');
  command.add_option("--keep-batchnorm-fp32", options.keep_batchnorm,
                     "Scale and shift of normalisations in f32: true or false (false at O3)");
}

void add_model_options(CLI::App& command, SharedOptions& options) {
  add_precision_options(command, options);
  command.add_option("--loss-scale", options.loss_scale,
                     "dynamic, none or a number (dynamic for f16, none for bf16)");
  command
      .add_option("--recompute", options.run.recompute,
                  "Modules to compute again in the backward pass, to save memory, e.g. layer?.?")
      ->delimiter(',');
  command.add_flag("--sync-batchnorm", options.run.sync_batchnorm,
                   "Batch norm by the statistics of the batches of all processes of a launcher");
  command.add_flag("--graph", options.run.graph,
                   "Capture the training step and replay it, instead of running it eagerly");
  add_batch_size_option(command, options);
  command.add_option("--lr", options.run.lr, "Learning rate")->capture_default_str();
  command.add_option("--momentum", options.run.momentum, "Momentum of SGD")->capture_default_str();
  command.add_option("--weight-decay", options.run.weight_decay, "L2 penalty")
      ->capture_default_str();
  command
      .add_option("--label-smoothing", options.run.label_smoothing,
                  "Part of the target spread over all classes")
      ->capture_default_str();
  command.add_option("--seed", options.run.seed, "Of weights and data order")
      ->capture_default_str();
  add_device_options(command, options);
  add_output_options(command, options);
}

void add_batch_size_option(CLI::App& command, SharedOptions& options) {
  command.add_option("--batch-size", options.run.batch_size, "Images per step")
      ->capture_default_str();
}

void add_output_options(CLI::App& command, SharedOptions& options) {
  command.add_option("--threads", options.threads, "Threads to use (all cores)");
  command.add_option("--json", options.json, "Write events to this file, one JSON object per line");
  command.add_flag("--quiet", options.quiet, "No progress");
}

void add_level_option(CLI::App& command, SharedOptions& options) {
  command
      .add_option("--amp", options.level,
                  "Level: O0, O1, auto, O2 or O3, also with its dtype: O2/f16")
      ->capture_default_str();
}

void add_data_options(CLI::App& command, SharedOptions& options) {
  command.add_option("--data", options.run.data, std::string(data::kDatasetNames))
      ->capture_default_str();
  add_size(command, "--image-size", options.run.image_size,
           "Height and width that images are brought to (the data's own; images: 224)");
  command.add_option("--workers", options.run.workers, "Threads that make batches; 0: none")
      ->capture_default_str();
}

void add_training_options(CLI::App& command, SharedOptions& options) {
  add_data_options(command, options);
  command.add_option("--epochs", options.epochs,
                     "Passes over the data (1, or as many as --steps takes)");
  command.add_option("--steps", options.run.steps,
                     "End after so many steps, of all epochs together");
  command.add_option("--lr-schedule", options.schedule, train::schedule_names())
      ->capture_default_str();
  const auto add_number = [&](const char* name, std::optional<double>& number, const char* help,
                              double otherwise) {
    command.add_option(name, number, concat(help, " (", otherwise, ")"));
  };
  add_number("--lr-init", options.lr_init, "Learning rate that the warm-up begins with",
             options.run.lr_init);
  add_number("--lr-end", options.lr_end, "Where linear and half-cosine end", options.run.lr_end);
  add_number("--lr-gamma", options.lr_gamma, "Factor of exponential, per epoch",
             options.run.lr_gamma);
  command
      .add_option("--warmup-epochs", options.run.warmup_epochs,
                  "Epochs over which the learning rate climbs")
      ->capture_default_str();
  command.add_option("--weights", options.run.weights,
                     "Start from this safetensors file, checkpoint or folder of checkpoints");
  command.add_flag("--zero-init-residual", options.run.zero_init_residual,
                   "Begin with residual blocks that hand on what they are given: the weights of "
                   "their last norms are 0");
  // As flags that are set to false, they would be called `--no-shuffle{false}` in the help.
  command.add_flag_callback(
      "--no-shuffle", [&options] { options.run.shuffle = false; }, "Images in file order");
  command.add_flag_callback(
      "--no-augment", [&options] { options.run.augment = false; },
      "Training images as they are: cifar10 and images are cropped and flipped else");
}

void fit_epochs(const SharedOptions& options, const data::Dataset& images, train::RunOptions& run) {
  if (options.epochs.has_value() || !run.steps.has_value()) return;
  // Where there is no whole batch, the loader says so.
  const std::int64_t per_epoch =
      std::max<std::int64_t>(images.size() / run.batch_size / run.process_count(), 1);
  run.epochs = std::min((*run.steps - 1) / per_epoch + 1, train::kMostEpochs);
}

void add_checkpoint_options(CLI::App& command, SharedOptions& options) {
  train::CheckpointingOptions& checkpoints = options.run.checkpoints;
  command.add_option("--checkpoint-dir", checkpoints.folder, "Write checkpoints into this folder");
  command.add_option("--checkpoint-every", checkpoints.every,
                     "Steps between checkpoints (one after each epoch)");
  command.add_option("--keep", checkpoints.keep, "Checkpoints to keep, the newest; 0 for all (3)");
  command.add_flag("--keep-best", checkpoints.keep_best,
                   "Keep the checkpoint with the best test accuracy in the folder's `best`");
  command.add_flag("--resume", checkpoints.resume,
                   "Go on from the newest sound checkpoint, if there is one");
}

void add_report_options(CLI::App& command, SharedOptions& options) {
  command.add_option("--logdir", options.logdir, "Write TensorBoard event files into this folder");
  command.add_option("--report", options.report,
                     "Write an HTML page about the run: verdict, curves, gradients, plan");
  command.add_option("--histogram-every", options.histogram_every,
                     "Count the exponents of gradients every so many steps (50 with --report, 0: "
                     "never)");
  command.add_flag("--activation-gradients", options.run.activation_gradients,
                   "Count the gradients of every module's output, too");
}

void add_device_options(CLI::App& command, SharedOptions& options) {
  command.add_option("--device", options.device, "Where to compute: cpu, cuda or cuda:1")
      ->capture_default_str();
  command.add_flag("--tf32", options.tf32,
                   "Round the factors of f32 products to 11 bits, where a card has TF32");
}

void apply_machine_options(const SharedOptions& options) {
  constexpr std::int64_t kMostThreads = 1024;
  if (options.threads.has_value()) {
    check_arg(*options.threads >= 1 && *options.threads <= kMostThreads, "--threads",
              "must be from 1 to ", kMostThreads, ": ", *options.threads);
    set_num_threads(static_cast<int>(*options.threads));
  }
  if (options.tf32) allow_tf32(true);
}

}  // namespace mezzo::cli
