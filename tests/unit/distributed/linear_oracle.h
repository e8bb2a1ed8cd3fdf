// What a linear network's loss and gradients are over a whole batch, in double by the formulas, and
// how far f32 or 16 bits may be from that.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "mezzo/ops/losses.h"

namespace mezzo::test {

// One row for each place that is classified or compared: an example, or a pixel of one.
struct Places {
  std::vector<std::vector<double>> inputs{};   // f numbers each
  std::vector<std::int64_t> labels{};          // of losses of classes
  std::vector<std::vector<double>> targets{};  // c numbers each, of other losses; NaN: not known
};

// output = weight * input + bias
struct LinearParams {
  std::vector<std::vector<double>> weight{};  // [c][f]
  std::vector<double> bias{};                 // [c]
};

struct LossRule {
  bool is_of_classes = true;  // cross entropy; else squares of differences
  Reduction reduction = Reduction::kMean;
  std::optional<std::int64_t> ignore_index{};
  std::vector<double> class_weights{};  // empty: none
  double smoothing = 0;
  bool leaves_out_unknown = false;  // targets that are NaN
};

struct Near {
  double value = 0;
  double error = 0;  // what rounding may make of it
};

struct WholeBatch {
  double count = 0;  // what a mean is divided by; 1 for a sum
  Near loss{};
  std::vector<Near> grads{};  // by weight, row by row, and bias
};

// `unit`: the largest relative error of a rounding to the dtype that the network computes in.
// `smallest`: the distance of that dtype's smallest numbers, divided by the loss scale. `parts`:
// how many gradients are added up.
struct Rounding {
  double unit = 0x1p-24;
  double smallest = 0;
  std::int64_t parts = 1;
};

WholeBatch whole_batch(const Places& places, const LinearParams& params, const LossRule& rule,
                       const Rounding& rounding);

}  // namespace mezzo::test
