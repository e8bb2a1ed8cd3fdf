// Losses with their options, as function objects. They have no parameters and no place in a
// network, so they are not modules.
#pragma once

#include <utility>

#include "mezzo/ops/losses.h"

namespace mezzo::nn {

// cross_entropy(logits, labels) with fixed options.
class CrossEntropyLoss {
 public:
  explicit CrossEntropyLoss(CrossEntropyOptions options = {}) : options_(std::move(options)) {}

  // logits: floating [n, c, ...]; labels: i64 [n, ...] or probabilities [n, c, ...]. The loss is
  // f32, a scalar or [n, ...]. Throws ArgumentError like cross_entropy().
  Tensor operator()(const Tensor& logits, const Tensor& labels) const {
    return cross_entropy(logits, labels, options_);
  }

 private:
  CrossEntropyOptions options_;
};

// mse_loss(prediction, target) with a fixed reduction.
class MseLoss {
 public:
  explicit MseLoss(Reduction reduction = Reduction::kMean) : reduction_(reduction) {}

  // Both floating and of one shape. The loss is f32, a scalar or of that shape. Throws
  // ArgumentError if the shapes differ.
  Tensor operator()(const Tensor& prediction, const Tensor& target) const {
    return mse_loss(prediction, target, reduction_);
  }

 private:
  Reduction reduction_;
};

}  // namespace mezzo::nn
