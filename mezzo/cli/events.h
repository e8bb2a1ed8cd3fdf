// What commands log of a run: how it begins and what came of it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "mezzo/cli/json_lines.h"
#include "mezzo/train/run.h"

namespace mezzo::cli {

// What a start event says besides its network and its machine: of images; of a training step; of
// training on images, both and more.
Json data_fields(const train::RunOptions& options);
Json step_fields(const train::RunOptions& options);
Json training_fields(const train::RunOptions& options);
// The configuration of a run, with the fields that are its command's own, and the machine it runs
// on.
Json start_event(const std::string& command, const train::RunOptions& options, const Json& own);
// What all commands measure that run a network on images.
struct Measured {
  double step_ms_median = 0;  // of an evaluation: of its batches
  double images_per_s = 0;
  std::int64_t peak_bytes = 0;
  std::int64_t skipped_steps = 0;
  std::optional<train::Evaluation> test{};  // null if nothing was evaluated
};
// How every result begins: what it is of.
Json begin_result(const train::RunOptions& options);
// The outcome of such a command, with the fields that are its own.
Json result_event(const train::RunOptions& options, const Measured& measured, const Json& own);
// That of a run. `with_data`: loss and accuracy were measured; else they are null.
Json result_event(const train::RunOptions& options, const train::RunResult& result, bool with_data);
// Instead of that, of a run that a signal ended.
Json stopped_event(const train::RunResult& result);

}  // namespace mezzo::cli
