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

// A run with all that a page shows, of that many steps and of a network of that many modules with a
// weight and a bias each.
inline RunData large_run(std::int64_t steps, std::int64_t modules) {
  RunData run = example_run(steps, 65536);
  run.name = "resnet50 O2/f16";
  run.dtype = DType::kF16;
  run.configuration = {{"model", "resnet50"}, {"data", "shapes"}, {"level", "O2"}, {"seed", "1"}};
  run.peak_memory = "812.4 MiB";
  for (StepRecord& step : run.steps) {
    const auto x = static_cast<double>(step.step);
    step.loss += 0.2 + 0.1 * std::sin(x);
    step.lr = 0.1 * (1 + std::cos(3 * x / static_cast<double>(steps)));
    step.grad_norm = 1 + std::sin(0.3 * x);
    step.ms = 12 + (step.step % 7 == 3 ? 1 : 0);
    step.skipped = step.step % 100 == 50;
    step.culprit = step.skipped ? "layer1.0.conv1.weight" : "";
    step.scale = std::exp2(10 + step.step % 6);
  }
  run.epochs.push_back({.epoch = 2, .train_loss = 0.3, .test_loss = 0.25, .accuracy = 0.925});
  run.plan.header = {"path", "op", "dtype", "rule", "casts", "why"};
  for (std::int64_t i = 0; i < modules; ++i) {
    const std::string path =
        "backbone.layer" + std::to_string(i / 10) + "." + std::to_string(i % 10) + ".conv2";
    std::vector<float> values{0, 0};
    for (int exponent = -34; exponent < 2; ++exponent) {
      const int count = 1 + static_cast<int>((7 * i + exponent * exponent) % 13);
      values.insert(values.end(), static_cast<std::size_t>(count), std::ldexp(1.0F, exponent));
    }
    run.gradients.push_back(histogram_of(path + ".weight", values));
    run.gradients.push_back(histogram_of(path + ".bias", values));
    run.activation_gradients.push_back(histogram_of(path, values));
    run.plan.rows.push_back({path, "conv2d", i % 3 == 0 ? "f32" : "f16", "lower", "2", "1"});
  }
  run.reasons = {.header = {"why", "reason"}, .rows = {{"1", "most of its work is multiplied"}}};
  run.counted_steps = steps / 50;
  return run;
}

}  // namespace mezzo::report
