#include <algorithm>
#include <cmath>
#include <vector>

#include "mezzo/kernels/kernel.h"
#include "mezzo/ops/losses_attrs.h"

namespace mezzo::kernels::ref {
namespace {

// The smoothed target distribution of example i.
std::vector<double> target_of(const RefTensor& labels, std::int64_t i, std::int64_t classes,
                              double smoothing) {
  std::vector<double> target(static_cast<std::size_t>(classes), 0.0);
  if (labels.shape.rank() == 2) {
    std::copy_n(labels.data + i * classes, classes, target.begin());
  } else {
    target[checked_label(labels[i], i, classes, "cross_entropy")] = 1;
  }
  for (double& t : target) t = (1 - smoothing) * t + smoothing / static_cast<double>(classes);
  return target;
}

}  // namespace

extern const RefKernel cross_entropy = [](const RefArgs& args) {
  const auto& attrs = args.attrs<CrossEntropyAttrs>();
  const RefTensor& logits = args.inputs[0];
  const RefTensor& loss = args.outputs[0];
  const std::int64_t n = logits.shape[0];
  const std::int64_t classes = logits.shape[1];
  const bool separate = attrs.reduction == Reduction::kNone;
  if (!separate) loss[0] = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    const double* x = logits.data + i * classes;
    const std::vector<double> target = target_of(args.inputs[1], i, classes, attrs.label_smoothing);
    const double largest = *std::max_element(x, x + classes);
    double total = 0;
    for (std::int64_t j = 0; j < classes; ++j) total += std::exp(x[j] - largest);
    double of_example = 0;
    for (std::int64_t j = 0; j < classes; ++j) {
      if (target[j] == 0) continue;  // an excluded class may have a logit of -inf
      of_example -= target[j] * (x[j] - largest - std::log(total));
    }
    if (separate) {
      loss[i] = of_example;
    } else {
      loss[0] += of_example * loss_scale(attrs.reduction, n);
    }
    args.outputs[1][2 * i] = largest;
    args.outputs[1][2 * i + 1] = std::log(total);
  }
};

extern const RefKernel cross_entropy_grad = [](const RefArgs& args) {
  const auto& attrs = args.attrs<CrossEntropyAttrs>();
  const RefTensor& grad = args.inputs[0];
  const RefTensor& logits = args.inputs[1];
  const RefTensor& rows = args.inputs[3];
  const std::int64_t n = logits.shape[0];
  const std::int64_t classes = logits.shape[1];
  for (std::int64_t i = 0; i < n; ++i) {
    const std::vector<double> target = target_of(args.inputs[2], i, classes, attrs.label_smoothing);
    double mass = 0;
    for (const double t : target) mass += t;
    const double g =
        grad[attrs.reduction == Reduction::kNone ? i : 0] * loss_scale(attrs.reduction, n);
    for (std::int64_t j = 0; j < classes; ++j) {
      const std::int64_t k = i * classes + j;
      const double probability = std::exp(logits[k] - rows[2 * i] - rows[2 * i + 1]);
      args.outputs[0][k] = g * (probability * mass - target[j]);
    }
  }
};

extern const RefKernel mse_loss = [](const RefArgs& args) {
  const Reduction reduction = args.attrs<MseAttrs>().reduction;
  const RefTensor& loss = args.outputs[0];
  const std::int64_t n = args.inputs[0].numel();
  const bool separate = reduction == Reduction::kNone;
  if (!separate) loss[0] = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    const double difference = args.inputs[0][i] - args.inputs[1][i];
    const double square = difference * difference;
    if (separate) {
      loss[i] = square;
    } else {
      loss[0] += square * loss_scale(reduction, n);
    }
  }
};

extern const RefKernel mse_loss_grad = [](const RefArgs& args) {
  const Reduction reduction = args.attrs<MseAttrs>().reduction;
  const RefTensor& out = args.outputs[0];
  for (std::int64_t i = 0; i < out.numel(); ++i) {
    const double g = args.inputs[0][reduction == Reduction::kNone ? i : 0];
    out[i] = 2 * (args.inputs[1][i] - args.inputs[2][i]) * g * loss_scale(reduction, out.numel());
  }
};

}  // namespace mezzo::kernels::ref
