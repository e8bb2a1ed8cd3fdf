// What a report is about: plain data, filled in while a network is trained.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "mezzo/amp/gradient_histogram.h"
#include "mezzo/core/dtype.h"

namespace mezzo::report {

struct StepRecord {
  std::int64_t step = 0;  // from 1
  double loss = 0;
  double lr = 0;
  double scale = 1;  // the loss scale of this step
  bool skipped = false;
  std::optional<double> grad_norm{};  // before clipping, if gradients are clipped
  bool nonfinite_loss = false;        // why it was skipped, if that is not the gradient of
  std::string culprit{};              // the first parameter where it was not finite
};

struct EpochRecord {
  std::int64_t epoch = 0;  // from 1
  double train_loss = 0;
  double test_loss = 0;
  double accuracy = 0;  // part of 1
  double seconds = 0;
};

// An image of the training data.
struct Picture {
  std::vector<std::byte> png{};  // the bytes of a PNG file
  std::int64_t width = 0;        // in pixels
  std::int64_t height = 0;
  std::string label{};  // what it shows
};

struct Table {
  std::vector<std::string> header{};
  std::vector<std::vector<std::string>> rows{};
};

struct RunData {
  std::string name{};  // `lenet5 O2/f16`
  std::vector<std::pair<std::string, std::string>> configuration{};
  DType dtype = DType::kF32;           // the lower precision in use; f32 if there is none
  bool is_scaled = false;              // the loss was multiplied by a scale
  std::vector<Picture> first_batch{};  // as the network sees it; some of it, if it is large
  std::int64_t batch_size = 0;         // of that batch
  std::int64_t resumed_after = 0;      // steps done before, of which nothing is recorded here
  std::vector<StepRecord> steps{};
  std::vector<EpochRecord> epochs{};
  std::vector<std::string> notes{};  // what happened on the way, a sentence each, without its stop
  // Sums over the run; empty if none were gathered.
  std::vector<amp::GradientHistogram> gradients{};
  std::vector<amp::GradientHistogram> activation_gradients{};
  std::int64_t counted_steps = 0;
  Table plan{};     // a row per operation; without rows if there is none
  Table reasons{};  // of what the plan says, if it has only their numbers
};

}  // namespace mezzo::report
