// Times steps on generated input.
#include <cstdint>
#include <functional>
#include <optional>

#include "mezzo/core/device_backend.h"
#include "mezzo/ops/exact_sums.h"
#include "mezzo/train/configuration.h"
#include "mezzo/train/example.h"
#include "mezzo/train/profile.h"
#include "mezzo/train/run.h"
#include "mezzo/train/step_statistics.h"
#include "mezzo/train/trainer.h"

namespace mezzo::train {

RunResult bench(const RunOptions& options, const BenchOptions& bench, RunObserver& observer) {
  check_options(options);
  const ExactSums sums(options.exact_sums || are_sums_exact());
  constexpr std::int64_t kMostSteps = 1'000'000'000;
  check_arg(bench.warmup >= 0 && bench.warmup <= kMostSteps && bench.steps >= 1 &&
                bench.steps <= kMostSteps,
            "bench", "--warmup must not be negative and --steps at least 1, both at most ",
            kMostSteps, ": ", bench.warmup, " and ", bench.steps);
  const ExampleKind example = usual_example(options);
  std::function<void(amp::StepPhase)> on_phase;
  std::optional<ListenToKernels> listening;
  if (bench.profile != nullptr) {
    on_phase = [&](amp::StepPhase phase) { bench.profile->begin(phase); };
    listening.emplace(*bench.profile);
  }
  RunOptions timed = options;
  timed.watch_every = 0;  // a look takes as long as several steps
  Trainer trainer(timed, example.shape, example.classes, {.on_phase = on_phase});
  data::Batch batch = generated_batch(example, options.batch_size);
  batch.images = batch.images.to(options.device);
  batch.labels = batch.labels.to(options.device);
  reset_peak_memory(options.device);
  observer.on_start(bench.warmup + bench.steps);
  StepStatistics statistics;
  const auto sent_bytes = [&] {
    return options.processes != nullptr ? options.processes->bytes_sent() : std::int64_t{0};
  };
  std::int64_t sent_before = 0;
  for (std::int64_t i = 0; i < bench.warmup + bench.steps; ++i) {
    if (bench.profile != nullptr && i == bench.warmup) bench.profile->reset();
    if (i == bench.warmup) sent_before = sent_bytes();
    // What a GPU's libraries try out in the first steps, and the memory for it, is not needed
    // later.
    const bool is_card = !options.device.is_cpu();
    if (is_card && i == bench.warmup) reset_peak_memory(options.device);
    const amp::TrainStepResult report = trainer.model.train_step()(batch.images, batch.labels);
    if (i >= bench.warmup) statistics.add(report);
    observer.on_step({.step = i + 1, .epoch = 1, .lr = options.optimizer.lr, .report = report});
  }
  RunResult result;
  statistics.write(result, images_of_step(options));
  if (example.is_tokens()) {
    result.tokens_per_s = result.images_per_s * static_cast<double>(example.shape[0]);
  }
  result.peak_bytes = memory_stats(options.device).peak_bytes;
  result.sent_bytes = (sent_bytes() - sent_before) / bench.steps;
  return result;
}

}  // namespace mezzo::train
