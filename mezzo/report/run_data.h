// What a report is about: plain data, filled in while a network is trained.
#pragma once

#include <cstdint>
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
  bool nonfinite_loss = false;  // why it was skipped, if that is not the gradient of
  std::string culprit{};        // the first parameter where it was not finite
};

struct EpochRecord {
  std::int64_t epoch = 0;  // from 1
  double train_loss = 0;
  double test_loss = 0;
  double accuracy = 0;  // part of 1
  double seconds = 0;
};

struct Table {
  std::vector<std::string> header{};
  std::vector<std::vector<std::string>> rows{};
};

struct RunData {
  std::string name{};  // `lenet5 O2/f16`
  std::vector<std::pair<std::string, std::string>> configuration{};
  DType dtype = DType::kF32;  // the lower precision in use; f32 if there is none
  bool is_scaled = false;     // the loss was multiplied by a scale
  std::vector<StepRecord> steps{};
  std::vector<EpochRecord> epochs{};
  // Sums over the run; empty if none were gathered.
  std::vector<amp::GradientHistogram> gradients{};
  std::vector<amp::GradientHistogram> activation_gradients{};
  std::int64_t counted_steps = 0;
  Table plan{};  // path, op, dtype, rule, reason, casts; without rows if there is none
};

}  // namespace mezzo::report
