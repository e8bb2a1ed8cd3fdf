// Histograms and runs for the tests of the report.
#pragma once

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "mezzo/amp/gradient_histogram.h"
#include "mezzo/ops/update/multi_tensor.h"
#include "mezzo/report/run_data.h"

namespace mezzo::report {

inline amp::GradientHistogram histogram_of(std::string name, const std::vector<float>& values) {
  const Tensor tensor = from_values(values, {static_cast<std::int64_t>(values.size())});
  return {.name = std::move(name),
          .shape = tensor.shape(),
          .counts = count_exponents({&tensor, 1}).front(),
          .passes = 1};
}

// A run of that many steps without histograms, with a fixed scale.
inline RunData example_run(std::int64_t steps, double scale = 1) {
  RunData run{.name = "lenet5 O2", .is_scaled = scale != 1};
  for (std::int64_t step = 1; step <= steps; ++step) {
    run.steps.push_back(
        {.step = step, .loss = 2.3 / static_cast<double>(step), .lr = 0.1, .scale = scale});
  }
  run.epochs = {{.epoch = 1, .train_loss = 1, .test_loss = 0.25, .accuracy = 0.925, .seconds = 3}};
  return run;
}

}  // namespace mezzo::report
