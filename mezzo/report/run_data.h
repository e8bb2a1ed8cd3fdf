// The data that a report shows: plain structs, filled in while a network is trained.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "mezzo/amp/gradient_histogram.h"
#include "mezzo/core/dtype.h"
#include "mezzo/numbers/call_histogram.h"
#include "mezzo/numbers/first_overflow.h"

namespace mezzo::report {

struct StepRecord {
  std::int64_t step = 0;  // from 1
  double loss = 0;
  double lr = 0;
  double scale = 1;  // the loss scale of this step
  bool skipped = false;
  std::optional<double> grad_norm{};  // before clipping, if gradients are clipped
  bool nonfinite_loss = false;        // the reason why it was skipped; otherwise:
  std::string culprit{};              // the first parameter whose gradient was not finite
  double ms = 0;                      // its time without the wait for its batch; 0: not measured
};

struct EpochRecord {
  std::int64_t epoch = 0;  // from 1
  double train_loss = 0;
  double test_loss = 0;
  double accuracy = 0;  // between 0 and 1; without meaning for a language model
  double seconds = 0;
};

// An evaluation of the test set, at the end of an epoch or within it.
struct EvaluationRecord {
  std::int64_t step = 0;  // the one that it followed, from 1
  double loss = 0;
};

// An image of the training data.
struct Picture {
  std::vector<std::byte> png{};  // the bytes of a PNG file
  std::int64_t width = 0;        // in pixels
  std::int64_t height = 0;
  std::string label{};  // its label
};

struct Table {
  std::vector<std::string> header{};
  std::vector<std::vector<std::string>> rows{};
};

struct RunData {
  std::string name{};  // `lenet5 O2/bf16`
  std::vector<std::pair<std::string, std::string>> configuration{};
  DType dtype = DType::kF32;           // the lower dtype in use; f32 if there is none
  bool is_scaled = false;              // the loss was multiplied by a scale
  bool has_accuracy = true;            // false for a language model, whose measure is perplexity
  std::vector<Picture> first_batch{};  // as the network sees it; a part of a large batch
  std::int64_t batch_size = 0;         // of that batch
  std::int64_t resumed_after = 0;      // earlier steps, which this run did not record
  std::int64_t total_steps = 0;        // that it is to have done at its end; 0: not known
  bool is_running = false;             // the page is one of its state so far
  std::string peak_memory{};           // of tensors: `812.4 MiB`; empty: not known
  std::vector<StepRecord> steps{};
  std::vector<EpochRecord> epochs{};
  std::vector<EvaluationRecord> evaluations{};
  std::vector<std::string> notes{};  // events on the way, a sentence each, without a full stop
  // Sums over the run; empty if no gradients were counted.
  std::vector<amp::GradientHistogram> gradients{};
  std::vector<amp::GradientHistogram> activation_gradients{};
  std::int64_t counted_steps = 0;
  std::vector<numbers::OverflowFinding> first_overflows{};  // empty unless the run looked for them
  // Sums over the forward passes that were counted; empty if none was.
  std::vector<numbers::CallHistogram> activations{};
  std::vector<amp::ExponentHistogram> weights{};
  std::int64_t counted_forward_passes = 0;
  Table plan{};     // a row per operation; no rows without a plan
  Table reasons{};  // those of the plan, if it only has their numbers
};

}  // namespace mezzo::report
