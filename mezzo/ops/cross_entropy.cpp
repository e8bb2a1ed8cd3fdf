// The parts of cross_entropy() that its operation does not support: more axes after the classes,
// ignored examples, and class weights. They are made of operations, so that the host need not read
// any values.
#include <utility>

#include "mezzo/ops/arithmetic.h"
#include "mezzo/ops/cast.h"
#include "mezzo/ops/compare.h"
#include "mezzo/ops/dispatcher/call.h"
#include "mezzo/ops/indexing.h"
#include "mezzo/ops/losses.h"
#include "mezzo/ops/losses_attrs.h"
#include "mezzo/ops/reduce.h"
#include "mezzo/ops/select.h"
#include "mezzo/ops/shape_ops.h"

namespace mezzo {

namespace ops {
extern const OpDef cross_entropy;
}  // namespace ops

namespace {

Tensor cross_entropy_of_places(const Tensor& logits, const Tensor& labels,
                               const CrossEntropyOptions& options) {
  Shape places = logits.shape();
  places.erase(1);
  const bool are_numbers = labels.shape() == places;
  check_arg(are_numbers || labels.shape() == logits.shape(), "cross_entropy",
            "the logits have shape ", logits.shape(), ", the labels ", labels.shape(),
            ". Labels are class numbers, ", places, ", or probabilities with the logits' shape");
  check_arg(are_numbers ? labels.dtype() == DType::kI64 : is_floating(labels.dtype()),
            "cross_entropy",
            are_numbers ? "class numbers are i64" : "probabilities are floating-point",
            ", these labels are ", labels, ". Use astype()");
  const Tensor rows = are_numbers ? reshape(labels, {labels.numel()}) : class_rows(labels);
  const Tensor loss = cross_entropy(class_rows(logits), rows, options);
  return options.reduction == Reduction::kNone ? reshape(loss, places) : loss;
}

// Throws the operation's own errors for inputs that do not fit. This comes before other operations
// are called, whose names would be in the errors.
void check_rows(const Tensor& logits, const Tensor& labels, const CrossEntropyOptions& options) {
  const Tensor* const inputs[] = {&logits, &labels};
  const Attrs attrs = CrossEntropyAttrs{options.label_smoothing, options.reduction};
  Infer infer(ops::cross_entropy.name, inputs, attrs);
  ops::cross_entropy.infer(infer);
  check_arg(labels.rank() == 1 || !options.ignore_index.has_value(), "cross_entropy",
            "ignore_index is for class numbers, which are i64[n]; the labels are ", labels,
            ". Leave ignore_index out");
}

// The class weight of each label; all labels must be classes.
Tensor own_weights(const Tensor& weights, const Tensor& labels) {
  return reshape(embedding(reshape(weights, {-1, 1}), labels), labels.shape());
}

// The class weight of each label; 0 for a label that is not a class, instead of an error.
Tensor own_weights_or_none(const Tensor& weights, const Tensor& labels) {
  const Tensor below = lt(labels, 0);
  const Tensor above = ge(labels, static_cast<double>(weights.numel()));
  const Tensor used = masked_fill(masked_fill(labels, below, 0), above, 0);
  return masked_fill(masked_fill(own_weights(weights, used), below, 0), above, 0);
}

// The weights in the dtype of the loss; undefined if there are none.
Tensor checked_class_weights(const Tensor& logits, const Tensor& weights) {
  if (!weights.defined()) return weights;
  check_arg(is_floating(weights.dtype()) && weights.shape() == Shape{logits.size(1)},
            "cross_entropy", "the class weights are ", weights, ", and there are ", logits.size(1),
            " classes. Give each one a floating-point weight");
  return weights.astype(logits.dtype() == DType::kF64 ? DType::kF64 : DType::kF32);
}

// The weighted target from probabilities, or from class numbers as rows of 0 and 1.
Tensor weighted_target(const Tensor& probabilities, double smoothing, const Tensor& weights) {
  const double share = smoothing / static_cast<double>(weights.numel());
  return affine(probabilities.astype(weights.dtype()), 1 - smoothing, share) * weights;
}

struct Weighted {
  Tensor losses;
  Tensor weights;  // of the labels
};

// The loss and weight of each example with a class number; all weights are 1 if none are given.
Weighted each_loss(const Tensor& logits, const Tensor& labels, const Tensor& weights,
                   double smoothing) {
  CrossEntropyOptions each{.reduction = Reduction::kNone};
  if (!weights.defined()) {
    each.label_smoothing = smoothing;
    const Tensor losses = cross_entropy(logits, labels, each);
    return {losses, ones(losses.shape(), losses.dtype(), Format::kContiguous, losses.device())};
  }
  if (smoothing == 0) {
    // This call comes first, because its error names a label that is not a class.
    const Tensor losses = cross_entropy(logits, labels, each);
    const Tensor factors = own_weights(weights, labels);
    return {losses * factors, factors};
  }
  // One call for both parts of the target. Two calls would give 16-bit logits gradients that are
  // rounded before they are added.
  const Tensor rows = one_hot(labels, weights.numel(), weights.dtype());
  return {cross_entropy(logits, weighted_target(rows, smoothing, weights), each),
          own_weights(weights, labels)};
}

Tensor cross_entropy_of_numbers(const Tensor& logits, const Tensor& labels, const Tensor& weights,
                                const CrossEntropyOptions& options) {
  Tensor used = labels;
  Tensor ignored;  // true for each ignored example
  if (options.ignore_index.has_value()) {
    ignored = eq(labels, static_cast<double>(*options.ignore_index));
    // Use the label of the largest logit instead: its loss is finite even if logits of other
    // classes are -inf.
    used = where(ignored, argmax(logits, 1), labels);
  }
  Weighted each = each_loss(logits, used, weights, options.label_smoothing);
  if (ignored.defined()) {
    // A factor of 0 would not do: a mean over no examples divides by 0, and 0 times that gradient
    // is NaN.
    each.losses = masked_fill(each.losses, ignored, 0);
    each.weights = masked_fill(each.weights, ignored, 0);
  }
  if (options.reduction == Reduction::kNone) return each.losses;
  const Tensor total = sum(each.losses);
  return options.reduction == Reduction::kSum ? total : total / sum(each.weights);
}

}  // namespace

Tensor class_rows(const Tensor& x) {
  Shape axes{0};
  for (std::size_t i = 2; i < x.rank(); ++i) axes.push_back(static_cast<std::int64_t>(i));
  axes.push_back(1);
  const std::int64_t classes = x.shape()[1];
  return reshape(permute(x, axes), {classes > 0 ? x.numel() / classes : 0, classes});
}

Tensor cross_entropy_count(const Tensor& given_labels, const CrossEntropyOptions& options) {
  const Tensor labels = as_indices(given_labels);
  const Tensor& weights = options.class_weights;
  check_arg(labels.dtype() == DType::kI64, "cross_entropy_count",
            "labels that are counted are class numbers, i64; these are ", given_labels,
            ". Means of probabilities are over the examples");
  check_arg(!weights.defined() || (is_floating(weights.dtype()) && weights.rank() == 1),
            "cross_entropy_count", "the class weights are ", weights,
            ". Give each class a floating-point weight");
  const WithoutPrecisionHook outside;  // this is part of the loss: compute in f32
  Tensor each = weights.defined()
                    ? own_weights_or_none(weights.astype(DType::kF32), labels)
                    : ones(labels.shape(), DType::kF32, Format::kContiguous, labels.device());
  if (options.ignore_index.has_value()) {
    each = masked_fill(each, eq(labels, static_cast<double>(*options.ignore_index)), 0);
  }
  return sum(each);
}

Tensor cross_entropy(const Tensor& logits, const Tensor& given_labels,
                     const CrossEntropyOptions& options) {
  const Tensor labels = as_indices(given_labels);
  if (logits.rank() > 2) return cross_entropy_of_places(logits, labels, options);
  if (!options.ignore_index.has_value() && !options.class_weights.defined()) {
    const CrossEntropyAttrs attrs{options.label_smoothing, options.reduction};
    return std::move(call(ops::cross_entropy, {&logits, &labels}, attrs)[0]);
  }
  check_rows(logits, labels, options);
  const WithoutPrecisionHook outside;  // this is part of the loss: compute in f32
  const Tensor weights = checked_class_weights(logits, options.class_weights);
  if (labels.rank() == 1) return cross_entropy_of_numbers(logits, labels, weights, options);
  const Tensor target = weighted_target(labels, options.label_smoothing, weights);
  return cross_entropy(logits, target, {.reduction = options.reduction});
}

}  // namespace mezzo
