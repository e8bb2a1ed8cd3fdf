// mezzo bench: times training steps on generated input.
#include <sys/resource.h>

#include "mezzo/cli/command.h"
#include "mezzo/cli/events.h"
#include "mezzo/cli/json_lines.h"
#include "mezzo/cli/options.h"
#include "mezzo/cli/print.h"
#include "mezzo/cli/processes.h"
#include "mezzo/cli/profile_table.h"
#include "mezzo/cli/progress.h"
#include "mezzo/cli/strict_values.h"
#include "mezzo/cli/table.h"
#include "mezzo/train/example.h"

namespace mezzo::cli {
namespace {

struct BenchOptions : SharedOptions {
  train::BenchOptions bench{};
  bool profile = false;
};

// The peak memory of the process: its tensors, what the allocator keeps for reuse, and everything
// else.
std::int64_t peak_process_bytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss * 1024;
}

void print_memory(const train::RunOptions& run, const train::RunResult& result,
                  std::int64_t process_bytes) {
  write_out("  memory    {} peak", format_bytes(result.peak_bytes));
  if (run.device.is_cpu()) {
    write_out(", the process {}", format_bytes(process_bytes));
  }
  write_out("\n");
  if (run.process_count() > 1) {
    write_out("  exchange  {} sent by this process in a step\n", format_bytes(result.sent_bytes));
  }
}

void print_times(const train::RunOptions& run, const train::ExampleKind& example,
                 const train::RunResult& result) {
  const std::string size = example.is_tokens()
                               ? fmt::format("{} tokens", example.shape[0])
                               : fmt::format("{}x{}", example.shape[1], example.shape[2]);
  write_out("{} {} at {}, batch {}", run.model, size, precision_of(run), run.batch_size);
  if (run.process_count() > 1) write_out(" in each of {} processes", run.process_count());
  write_out("\n");
  write_out("  step      {:.3f} ms median, {:.3f} min, {:.3f} max over {} steps\n",
            result.step_ms_median, result.step_ms_min, result.step_ms_max, result.steps);
  write_out("  phases    forward {:.3f} ms, backward {:.3f} ms, update {:.3f} ms (medians)\n",
            result.forward_ms_median, result.backward_ms_median, result.update_ms_median);
  write_out("  rate      {:.1f} {}/s", result.images_per_s, train::name_of_examples(example.shape));
  if (example.is_tokens()) write_out(", {:.0f} tokens/s", result.tokens_per_s);
  write_out("\n");
  if (result.skipped_steps > 0) {
    write_out("  skipped   {} of {} steps, for values that were not finite\n", result.skipped_steps,
              result.steps);
  }
}

void run_bench(BenchOptions options) {
  train::RunOptions run = options.parsed();
  const auto processes = share_work(options, {&run, 1});
  const train::ExampleKind example = train::usual_example(run);
  apply_machine_options(options);
  JsonLines json(options.json);
  Json own = step_fields(run);
  own.update(size_fields(example));
  own.update({{"warmup", options.bench.warmup}, {"steps", options.bench.steps}});
  json.begin(start_event("bench", run, own));
  Progress progress(json, run.model, options.quiet);
  train::Profile profile;
  train::BenchOptions bench = options.bench;
  if (options.profile) bench.profile = &profile;
  const train::RunResult result = train::bench(run, bench, progress);
  const std::int64_t process_bytes = peak_process_bytes();
  print_times(run, example, result);
  print_memory(run, result, process_bytes);
  if (options.profile) {
    const train::MachineRates rates = train::measure_machine_rates(run.device);
    print_profile(profile, result, rates);
    write_profile(json, profile, result, rates);
  }
  Json event = result_event(run, result, false);
  if (example.is_tokens()) event["tokens_per_s"] = result.tokens_per_s;
  event["process_bytes"] = process_bytes;
  if (run.process_count() > 1) event["sent_bytes"] = result.sent_bytes;
  json.write(event);
}

}  // namespace

void add_bench(CLI::App& app) {
  CLI::App* command = app.add_subcommand("bench", "Time training steps on generated input");
  auto options = std::make_shared<BenchOptions>();
  add_precision_options(*command, *options, OfferedModels::kAll);
  add_loss_scale_option(*command, *options);
  add_size(*command, "--image-size", options->run.image_size,
           "Height and width (the model's default)")
      ->group(heading::kData);
  add_tokens_option(*command, options->run);
  add_batch_size_option(*command, *options);
  command->add_option("--warmup", options->bench.warmup, "Warm-up steps, not timed")
      ->capture_default_str()
      ->group(heading::kData);
  command->add_option("--steps", options->bench.steps, "Steps to time")
      ->capture_default_str()
      ->group(heading::kData);
  add_freeze_option(*command, *options);
  add_optimizer_options(*command, *options);
  add_execution_options(*command, *options);
  add_output_options(*command, *options);
  command
      ->add_flag("--profile", options->profile,
                 "Time by operation, dtype and kernel, beside the machine's peak rates")
      ->group(heading::kOutput);
  command->callback([options] { run_bench(*options); });
}

}  // namespace mezzo::cli
