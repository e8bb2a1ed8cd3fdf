// The events that commands log about a run: its start and its result.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "mezzo/cli/json_lines.h"
#include "mezzo/train/example.h"
#include "mezzo/train/run.h"

namespace mezzo::cli {

// The fields of a start event besides network and machine: for images, for a training step, and for
// training on images, which has both and more.
Json data_fields(const train::RunOptions& options);
Json step_fields(const train::RunOptions& options);
// The size of generated examples: `image_size` or `tokens`.
Json size_fields(const train::ExampleKind& example);
Json training_fields(const train::RunOptions& options);
// The configuration of a run, with the command's own fields and the machine that it runs on.
Json start_event(const std::string& command, const train::RunOptions& options, const Json& own);
// The measurements of every command that runs a network on images.
struct Measured {
  double step_ms_median = 0;  // in an evaluation: of batches
  double images_per_s = 0;
  double tokens_per_s = 0;  // 0 for images
  std::int64_t peak_bytes = 0;
  std::int64_t skipped_steps = 0;
  std::optional<train::Evaluation> test{};  // null if nothing was evaluated
};
// The beginning of every result: the run that it belongs to.
Json begin_result(const train::RunOptions& options);
// What a test set shows of the network: `accuracy`, or `perplexity` of a language model.
Json quality_fields(const train::Evaluation& test);
// `accuracy 97.12 %, loss 0.0951`, or `perplexity 7.39, loss 2.0001`.
std::string text_of(const train::Evaluation& test);
// `1234 images/s`, or `1234 tokens/s`.
std::string rate_text(double images_per_s, double tokens_per_s);
// The result of such a command, with the command's own fields.
Json result_event(const train::RunOptions& options, const Measured& measured, const Json& own);
// The result of a run. `with_data`: loss and accuracy were measured; otherwise they are null.
Json result_event(const train::RunOptions& options, const train::RunResult& result, bool with_data);
// The event that replaces the result of a run that a signal ended.
Json stopped_event(const train::RunResult& result);

}  // namespace mezzo::cli
