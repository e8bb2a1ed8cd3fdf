#include "tests/unit/distributed/linear_oracle.h"

#include <algorithm>
#include <cmath>

namespace mezzo::test {
namespace {

constexpr double kF32 = 0x1p-24;

// The loss of one place and its gradient with respect to the outputs.
struct PlaceLoss {
  double count = 1;
  Near loss{};
  std::vector<Near> grads{};
};

struct Outputs {
  std::vector<double> values{};
  double error = 0;  // of the worst place
};

// Inputs, weights, bias and outputs are rounded once each; sums are in f32.
Outputs outputs_of(const std::vector<double>& inputs, const LinearParams& params, double unit) {
  Outputs outputs;
  for (std::size_t j = 0; j < params.bias.size(); ++j) {
    double value = params.bias[j];
    double size = std::abs(value);
    for (std::size_t k = 0; k < inputs.size(); ++k) {
      value += params.weight[j][k] * inputs[k];
      size += std::abs(params.weight[j][k] * inputs[k]);
    }
    const double terms = static_cast<double>(inputs.size()) + 2;
    outputs.values.push_back(value);
    outputs.error = std::max(outputs.error, (4 * unit + terms * kF32) * size);
  }
  return outputs;
}

PlaceLoss nothing(std::size_t classes) { return {0, {}, std::vector<Near>(classes)}; }

PlaceLoss cross_entropy_of(const Outputs& outputs, std::int64_t label, const LossRule& rule,
                           double unit) {
  const std::size_t classes = outputs.values.size();
  if (rule.ignore_index == label) return nothing(classes);
  const double highest = std::ranges::max(outputs.values);
  double total = 0;
  for (const double z : outputs.values) total += std::exp(z - highest);
  const auto weight_of = [&](std::size_t j) {
    return rule.class_weights.empty() ? 1 : rule.class_weights[j];
  };
  const auto target_of = [&](std::size_t j) {
    const double own = static_cast<std::int64_t>(j) == label ? 1 - rule.smoothing : 0;
    return (own + rule.smoothing / static_cast<double>(classes)) * weight_of(j);
  };
  double mass = 0;
  for (std::size_t j = 0; j < classes; ++j) mass += target_of(j);
  PlaceLoss place{.count = weight_of(static_cast<std::size_t>(label))};
  for (std::size_t j = 0; j < classes; ++j) {
    const double log_p = outputs.values[j] - highest - std::log(total);
    place.loss.value -= target_of(j) * log_p;
    // Logarithms and exponentials have errors of some f32 units.
    place.loss.error += target_of(j) * (2 * outputs.error + 32 * kF32 * (1 - log_p));
    place.grads.push_back({.value = std::exp(log_p) * mass - target_of(j),
                           .error = mass * (2 * outputs.error + 2 * unit + 64 * kF32)});
  }
  return place;
}

PlaceLoss square_of(const Outputs& outputs, const std::vector<double>& targets,
                    const LossRule& rule, double unit) {
  PlaceLoss place{.count = 0};
  for (std::size_t j = 0; j < targets.size(); ++j) {
    if (rule.leaves_out_unknown && std::isnan(targets[j])) {
      place.grads.push_back({});
      continue;
    }
    const double apart = outputs.values[j] - targets[j];
    const double off = outputs.error + 4 * kF32 * (std::abs(outputs.values[j]) + 1);
    place.count += 1;
    place.loss.value += apart * apart;
    place.loss.error += (2 * std::abs(apart) + off) * off + 4 * kF32 * apart * apart;
    place.grads.push_back(
        {.value = 2 * apart, .error = 2 * off + 2 * (unit + kF32) * std::abs(2 * apart)});
  }
  return place;
}

void add(Near& sum, double factor, const Near& more, double unit) {
  sum.value += factor * more.value;
  sum.error += std::abs(factor) * (more.error + unit * std::abs(more.value));
}

}  // namespace

WholeBatch whole_batch(const Places& places, const LinearParams& params, const LossRule& rule,
                       const Rounding& rounding) {
  const std::size_t classes = params.bias.size();
  const std::size_t features = params.weight.front().size();
  const double unit = rounding.unit;
  // The rounding errors of sums of that many terms: places, parts and counts, and of the division.
  const double of_sums =
      kF32 * static_cast<double>(2 * places.inputs.size() +
                                 2 * static_cast<std::size_t>(rounding.parts) + 8);
  WholeBatch whole{.grads = std::vector<Near>(classes * (features + 1))};
  for (std::size_t i = 0; i < places.inputs.size(); ++i) {
    const std::vector<double>& inputs = places.inputs[i];
    const Outputs outputs = outputs_of(inputs, params, unit);
    const PlaceLoss place = rule.is_of_classes
                                ? cross_entropy_of(outputs, places.labels[i], rule, unit)
                                : square_of(outputs, places.targets[i], rule, unit);
    whole.count += place.count;
    add(whole.loss, 1, place.loss, of_sums);
    for (std::size_t j = 0; j < classes; ++j) {
      for (std::size_t k = 0; k < features; ++k) {
        Near& grad = whole.grads[j * features + k];
        add(grad, inputs[k], place.grads[j], of_sums + 2 * unit);
      }
      add(whole.grads[classes * features + j], 1, place.grads[j], of_sums + 2 * unit);
    }
  }
  if (rule.reduction == Reduction::kSum) whole.count = 1;
  const auto finish = [&](Near& near, double smallest) {
    near.value /= whole.count;
    near.error = 1.5 * near.error / whole.count + smallest;  // half more for products of errors
  };
  finish(whole.loss, 0);
  // Gradients of places are rounded to multiples of the smallest value.
  double largest = 1;
  for (const auto& inputs : places.inputs) {
    for (const double x : inputs) largest = std::max(largest, std::abs(x));
  }
  const double smallest = rounding.smallest * largest * static_cast<double>(places.inputs.size());
  for (Near& grad : whole.grads) finish(grad, smallest);
  return whole;
}

}  // namespace mezzo::test
