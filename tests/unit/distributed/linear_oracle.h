// Computes a linear network's loss and gradients over a whole batch in double, from the formulas,
// and bounds on the errors of f32 or 16 bits.
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
  std::vector<std::vector<double>> inputs{};   // f values each
  std::vector<std::int64_t> labels{};          // for losses over classes
  std::vector<std::vector<double>> targets{};  // c values each, for other losses; NaN: unknown
};

// output = weight * input + bias
struct LinearParams {
  std::vector<std::vector<double>> weight{};  // [c][f]
  std::vector<double> bias{};                 // [c]
};

struct LossRule {
  bool is_of_classes = true;  // cross-entropy; otherwise squared differences
  Reduction reduction = Reduction::kMean;
  std::optional<std::int64_t> ignore_index{};
  std::vector<double> class_weights{};  // empty: none
  double smoothing = 0;
  bool leaves_out_unknown = false;  // unknown targets are NaN
};

struct Near {
  double value = 0;
  double error = 0;  // a bound on the rounding error
};

struct WholeBatch {
  double count = 0;  // the divisor of a mean; 1 for a sum
  Near loss{};
  std::vector<Near> grads{};  // of the weight, row by row, and of the bias
};

// `unit`: the largest relative error of a rounding to the network's dtype. `smallest`: the spacing
// of that dtype's smallest values, divided by the loss scale. `parts`: the number of gradients that
// are added up.
struct Rounding {
  double unit = 0x1p-24;
  double smallest = 0;
  std::int64_t parts = 1;
};

WholeBatch whole_batch(const Places& places, const LinearParams& params, const LossRule& rule,
                       const Rounding& rounding);

}  // namespace mezzo::test
