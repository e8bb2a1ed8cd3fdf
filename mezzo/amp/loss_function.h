// The loss of a training step or an evaluation, and how the losses of parts of a batch are
// combined.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>

#include "mezzo/core/tensor.h"
#include "mezzo/ops/losses.h"

namespace mezzo::amp {

// Batches come in parts: micro-batches, the batches of several processes, or those of a validation.
// There are three kinds of losses, which determine how the parts are combined:
//
//   a mean over examples   the mean of the parts' losses, weighted by their numbers of examples
//   a sum                  the sum of the parts' losses
//   a mean over a count    the sum of the parts' sums, divided by the sum of their counts
//
// The third kind covers losses that ignore labels or weight them. The members of a function object
// tell which kind it is, as in nn::CrossEntropyLoss and nn::MseLoss, even if it is passed by
// std::ref() or std::cref(). A function without such members is a mean over examples. A
// std::function hides the members of the loss in it: pass the loss itself.

// `reduction()`: Reduction::kSum for a sum.
template <class Loss>
concept ReportsReduction = requires(const Loss& loss) {
  { loss.reduction() } -> std::same_as<Reduction>;
};
// `sum(output, labels)` and `count(labels)`, both scalars: the loss is their quotient. count() is
// undefined for labels for which the loss is a mean over examples.
template <class Loss>
concept ReportsCount = requires(const Loss& loss, const Tensor& tensor) {
  { loss.sum(tensor, tensor) } -> std::convertible_to<Tensor>;
  { loss.count(tensor) } -> std::convertible_to<Tensor>;
};
// `ignore_index()`: the label that is not counted, which metrics also leave out.
template <class Loss>
concept ReportsIgnored = requires(const Loss& loss) {
  { loss.ignore_index() } -> std::convertible_to<std::optional<std::int64_t>>;
};

// `reads_16_bits()`: true if the loss gives the same f32 values for a 16-bit output as for that
// output widened to f32, and is called once for each output. The output is then not widened, which
// for a language model is the largest array of a step. (If a loss read the output in several calls,
// their gradients would be rounded to 16 bits before they are added.)
template <class Loss>
concept ReportsPrecision = requires(const Loss& loss) {
  { loss.reads_16_bits() } -> std::same_as<bool>;
};

// `has_classes_last()`: true if the output is [..., classes] and the labels are [...], as those of
// nn::NextTokenLoss. Metrics then get [n, classes] and [n].
template <class Loss>
concept ReportsClassAxis = requires(const Loss& loss) {
  { loss.has_classes_last() } -> std::same_as<bool>;
};

// The loss of one batch, for combination with those of other batches.
struct BatchLoss {
  double sum = 0;        // over all counted items
  double count = 0;      // number of examples, or the count that the loss reports
  bool adds_up = false;  // the loss is the sum itself, not divided by the count

  // The loss of the batch; NaN if it is a mean over nothing.
  double value() const { return adds_up ? sum : sum / count; }
};

// A function of the network's output (in f32 unless the loss reads 16 bits) and the labels, which
// returns a scalar loss.
class LossFunction {
 public:
  using Function = std::function<Tensor(const Tensor& output, const Tensor& labels)>;
  using Count = std::function<Tensor(const Tensor& labels)>;

  LossFunction(std::nullptr_t) {}  // NOLINT(google-explicit-constructor): as functions are
  // Wraps any function or function object, whose members tell its kind as described above.
  template <class Loss>
  requires(!std::same_as<Loss, LossFunction> && std::constructible_from<Function, Loss>)
      LossFunction(Loss loss) {  // NOLINT(google-explicit-constructor): as functions are
    using Object = std::remove_cvref_t<std::unwrap_reference_t<Loss>>;
    const Object& object = loss;
    if constexpr (ReportsReduction<Object>) adds_up_ = object.reduction() == Reduction::kSum;
    if constexpr (ReportsIgnored<Object>) ignore_index_ = object.ignore_index();
    if constexpr (ReportsPrecision<Object>) reads_16_bits_ = object.reads_16_bits();
    if constexpr (ReportsClassAxis<Object>) has_classes_last_ = object.has_classes_last();
    if constexpr (ReportsCount<Object>) {
      const auto shared = std::make_shared<const Loss>(loss);
      sum_ = [shared](const Tensor& output, const Tensor& labels) {
        return static_cast<const Object&>(*shared).sum(output, labels);
      };
      count_ = [shared](const Tensor& labels) {
        return static_cast<const Object&>(*shared).count(labels);
      };
    }
    loss_ = std::move(loss);
  }

  Tensor operator()(const Tensor& output, const Tensor& labels) const {
    return loss_(output, labels);
  }
  bool operator==(std::nullptr_t) const { return loss_ == nullptr; }

  // Whether the loss is a sum.
  bool adds_up() const { return adds_up_; }
  // The divisor of the loss for these labels, an f32 scalar; undefined if the loss is a sum or a
  // mean over examples. Throws ArgumentError unless the loss reports one number.
  Tensor count(const Tensor& labels) const;
  // The dividend of the loss; call it only if there is a count.
  Tensor sum(const Tensor& output, const Tensor& labels) const { return sum_(output, labels); }
  std::optional<std::int64_t> ignore_index() const { return ignore_index_; }
  // Whether 16-bit outputs need not be widened for this loss.
  bool reads_16_bits() const { return reads_16_bits_; }
  // Whether the classes are the last axis of the output, not axis 1.
  bool has_classes_last() const { return has_classes_last_; }

  // The loss of a batch as numbers on the host. output: [n, ...].
  BatchLoss of_batch(const Tensor& output, const Tensor& labels) const;

 private:
  Function loss_;
  Function sum_;
  Count count_;
  bool adds_up_ = false;
  bool reads_16_bits_ = false;
  bool has_classes_last_ = false;
  std::optional<std::int64_t> ignore_index_{};
};

// A user-defined loss that is a mean over a count: of sequences over their tokens, or of images
// over the pixels that have a label.
//
//   const auto is_known = [](const Tensor& labels) { return ge(labels, 0).astype(DType::kF32); };
//   amp::CountedLoss loss(
//       [=](const Tensor& output, const Tensor& labels) {
//         const Tensor apart = output - labels;
//         return sum(apart * apart * is_known(labels));
//       },
//       [=](const Tensor& labels) { return sum(is_known(labels)); });
class CountedLoss {
 public:
  // `sum` and `count` return one number each; if the count is 0, the sum must be 0. `ignore_index`:
  // the label that is not counted, for metrics. Throws ArgumentError if a function is null.
  CountedLoss(LossFunction::Function sum, LossFunction::Count count,
              std::optional<std::int64_t> ignore_index = std::nullopt);

  // sum / count.
  Tensor operator()(const Tensor& output, const Tensor& labels) const;
  Tensor sum(const Tensor& output, const Tensor& labels) const { return sum_(output, labels); }
  Tensor count(const Tensor& labels) const { return count_(labels); }
  std::optional<std::int64_t> ignore_index() const { return ignore_index_; }

 private:
  LossFunction::Function sum_;
  LossFunction::Count count_;
  std::optional<std::int64_t> ignore_index_;
};

// A user-defined loss that is a sum over its examples.
class SumLoss {
 public:
  // Throws ArgumentError if the function is null.
  explicit SumLoss(LossFunction::Function sum);

  Tensor operator()(const Tensor& output, const Tensor& labels) const {
    return sum_(output, labels);
  }
  static Reduction reduction() { return Reduction::kSum; }

 private:
  LossFunction::Function sum_;
};

}  // namespace mezzo::amp
