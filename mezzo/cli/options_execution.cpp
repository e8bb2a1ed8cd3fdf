// Options for how and where steps run.
#include "mezzo/cli/offered_values.h"
#include "mezzo/cli/option_words.h"
#include "mezzo/core/device_backend.h"
#include "mezzo/core/parallel.h"
#include "mezzo/distributed/wire.h"
#include "mezzo/ops/exact_sums.h"
#include "mezzo/ops/tf32.h"

namespace mezzo::cli {
namespace {

// A missing device is wrong input, like a missing folder: nothing has run yet.
Device parse_device_option(const std::string& text) {
  const std::optional<Device> device = parse_device(text);
  check_arg(device.has_value(), "--device", "unknown device `", text,
            "`. Known devices are cpu, cuda and cuda:N");
  try {
    if (!device->is_cpu()) static_cast<void>(backend_of(*device));
  } catch (const UnsupportedError& error) {
    throw ArgumentError(error.what());
  }
  return *device;
}

DType parse_reduce_dtype(const std::string& text) {
  const std::optional<DType> dtype = parse_dtype(text);
  check_arg(dtype.has_value() && distributed::can_be_exchanged(*dtype), "--reduce-dtype", "`", text,
            "` is not a dtype in which processes exchange gradients. Use ",
            distributed::kWireDTypes);
  return *dtype;
}

}  // namespace

void set_device(const SharedOptions& options, train::RunOptions& run) {
  run.device = parse_device_option(options.device);
  run.reduce_dtype = parse_reduce_dtype(options.reduce_dtype);
}

void add_execution_options(CLI::App& command, SharedOptions& options) {
  const auto add = [&](CLI::Option* option) { return option->group(heading::kExecution); };
  add(command.add_flag("--graph", options.run.graph, "Capture and replay steps"));
  add(command.add_option("--seed", options.run.seed, "Seed of random numbers"))
      ->capture_default_str();
  add(command.add_option("--recompute", options.run.recompute, "To save memory: layer?.?"))
      ->delimiter(',');
  add(command.add_flag("--sync-batchnorm", options.run.sync_batchnorm, "Norms of all processes"));
  add(command.add_flag("--shard-optimizer", options.run.shard_optimizer, "Shared by processes"));
  add(offer(command.add_option("--reduce-dtype", options.reduce_dtype, "Of sent gradients"),
            words_in(distributed::kWireDTypes)))
      ->capture_default_str();
  add_device_options(command, options);
}

void add_device_options(CLI::App& command, SharedOptions& options) {
  const auto add = [&](CLI::Option* option) { return option->group(heading::kExecution); };
  add(offer(command.add_option("--device", options.device, "cpu, cuda or cuda:1"), {"cpu", "cuda"}))
      ->capture_default_str();
  add(command.add_option("--threads", options.threads, "Threads (all cores)"));
  add(command.add_flag("--tf32", options.tf32, "TF32 products on GPUs"));
  add(command.add_flag("--exact", options.run.exact_sums, "Convolutions: direct sums"));
}

void apply_machine_options(const SharedOptions& options) {
  constexpr std::int64_t kMostThreads = 1024;
  if (options.threads.has_value()) {
    check_arg(*options.threads >= 1 && *options.threads <= kMostThreads, "--threads",
              "must be from 1 to ", kMostThreads, ": ", *options.threads);
    set_num_threads(static_cast<int>(*options.threads));
  }
  if (options.tf32) allow_tf32(true);
  if (options.run.exact_sums) use_exact_sums(true);
}

}  // namespace mezzo::cli
