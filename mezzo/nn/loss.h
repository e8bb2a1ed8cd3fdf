// Losses with their options, as function objects. They have no parameters and no place in a
// network, so they are not modules. They report their reduction and count (amp/loss_function.h), so
// that training steps and evaluations can combine the losses of parts of a batch.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>

#include "mezzo/ops/losses.h"
#include "mezzo/ops/shape_ops.h"

namespace mezzo::nn {

// cross_entropy(logits, labels) with fixed options.
class CrossEntropyLoss {
 public:
  explicit CrossEntropyLoss(CrossEntropyOptions options = {})
      : options_(std::move(options)), sum_options_(options_) {
    sum_options_.reduction = Reduction::kSum;
  }

  // logits: floating [n, c, ...]; labels: i64 [n, ...] or probabilities [n, c, ...]. The loss is
  // f32, a scalar or [n, ...]. Throws ArgumentError like cross_entropy().
  Tensor operator()(const Tensor& logits, const Tensor& labels) const {
    return cross_entropy(logits, labels, options_);
  }

  Reduction reduction() const { return options_.reduction; }
  std::optional<std::int64_t> ignore_index() const { return options_.ignore_index; }
  // True: the kernels widen the logits that they read, and the gradient is rounded once.
  static bool reads_16_bits() { return true; }
  // With an ignore_index or class weights, a mean over class numbers is sum() / count(). Otherwise
  // the count is undefined: other means are over examples, and a sum and the losses of
  // Reduction::kNone are not means.
  Tensor sum(const Tensor& logits, const Tensor& labels) const {
    return cross_entropy(logits, labels, sum_options_);
  }
  Tensor count(const Tensor& labels) const {
    const bool counts_some = options_.ignore_index.has_value() || options_.class_weights.defined();
    const bool divides = options_.reduction == Reduction::kMean && counts_some;
    return divides && !is_floating(labels.dtype()) ? cross_entropy_count(labels, options_)
                                                   : Tensor();
  }

 private:
  CrossEntropyOptions options_;
  CrossEntropyOptions sum_options_;
};

// The loss of a language model: cross_entropy() of the logits of every token with the token that
// follows it, a mean over all of them.
class NextTokenLoss {
 public:
  explicit NextTokenLoss(CrossEntropyOptions options = {}) : loss_(std::move(options)) {}

  // logits: floating [..., t, vocabulary]; labels: i64 [..., t], the next tokens. The loss is f32,
  // a scalar, or [n] for all n labels. Throws ArgumentError like cross_entropy().
  Tensor operator()(const Tensor& logits, const Tensor& labels) const {
    return loss_(flatten(logits, 0, -2), flatten(labels));
  }

  // As in CrossEntropyLoss; an example is a sequence, and all have the same number of tokens.
  Reduction reduction() const { return loss_.reduction(); }
  std::optional<std::int64_t> ignore_index() const { return loss_.ignore_index(); }
  static bool reads_16_bits() { return CrossEntropyLoss::reads_16_bits(); }
  // True: metrics get the logits as [n, vocabulary] and the labels as [n], one row for each token.
  static bool has_classes_last() { return true; }
  Tensor sum(const Tensor& logits, const Tensor& labels) const {
    return loss_.sum(flatten(logits, 0, -2), flatten(labels));
  }
  Tensor count(const Tensor& labels) const { return loss_.count(flatten(labels)); }

 private:
  CrossEntropyLoss loss_;
};

// mse_loss(prediction, target) with a fixed reduction.
class MseLoss {
 public:
  explicit MseLoss(Reduction reduction = Reduction::kMean) : reduction_(reduction) {}

  // Both are floating and of one shape. The loss is f32, a scalar or of that shape. Throws
  // ArgumentError if the shapes differ.
  Tensor operator()(const Tensor& prediction, const Tensor& target) const {
    return mse_loss(prediction, target, reduction_);
  }

  // A mean is over examples, because all have the same number of elements.
  Reduction reduction() const { return reduction_; }

 private:
  Reduction reduction_;
};

}  // namespace mezzo::nn
