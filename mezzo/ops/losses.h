// Losses. Each takes predictions of any floating dtype and gives an f32 loss (f64 from f64). A loss
// in 16 bits would hide the progress of training, and its scaled value would overflow types with a
// narrow range.
#pragma once

#include <optional>

#include "mezzo/core/tensor.h"

namespace mezzo {

// How the losses of the examples are combined.
enum class Reduction : std::uint8_t { kMean, kSum, kNone };

struct CrossEntropyOptions {
  double label_smoothing = 0;  // in [0, 1]
  Reduction reduction = Reduction::kMean;
  // The class number of examples to ignore: their loss and gradient are 0, and the mean is over the
  // others. It is NaN if there are none, as in PyTorch, where the default is -100.
  std::optional<std::int64_t> ignore_index{};
  // Floating [c], used in the dtype of the loss: the weight of each class, `weight` in PyTorch.
  // Undefined: all classes weigh the same.
  Tensor class_weights{};
};

// -sum(target * log_softmax(logits)) over the classes of each example; logits: [n, c]; labels:
// integers [n], or probabilities [n, c] of any floating dtype. With smoothing s the target is (1 -
// s) * label + s / c, as in PyTorch (Szegedy et al., "Rethinking the Inception architecture for
// computer vision", CVPR 2016, section 7). The result is a scalar, or [n] for kNone. Logits may
// have more axes, such as [n, c, h, w] for classes of pixels: labels are then integers [n, h, w],
// or probabilities of the logits' shape, and kNone gives [n, h, w]. Throws ArgumentError for labels
// outside [0, c), naming the first, for class weights of another shape, and for an empty batch
// under kMean.
//
// With class weights w it is -sum(w * target * log_softmax(logits)), including smoothing. For class
// numbers, the mean is then the sum of the losses divided by the sum of w[label], as in PyTorch.
// For probabilities, the mean is still over the examples.
Tensor cross_entropy(const Tensor& logits, const Tensor& labels,
                     const CrossEntropyOptions& options = {});
// The divisor of a mean over class numbers, which does not depend on the logits: the number of
// labels that count, or the sum of their class weights. labels: integers of any shape of rank at
// most 5; the result is an f32 scalar. With it the loss of a batch can be composed from its parts:
//
//   sum of cross_entropy(logits, labels, {.reduction = kSum, ...}) / sum of cross_entropy_count()
//
// Labels that are not classes count nothing; cross_entropy() reports them. Throws ArgumentError for
// probabilities, whose mean is over the examples, and for class weights that are not a list.
Tensor cross_entropy_count(const Tensor& labels, const CrossEntropyOptions& options);
// Logits with further axes, [n, c, ...], as rows of classes: [n * ..., c].
Tensor class_rows(const Tensor& x);

// (prediction - target)^2, averaged or summed over all elements, or returned for each element with
// kNone. Throws ArgumentError if the shapes differ.
Tensor mse_loss(const Tensor& prediction, const Tensor& target,
                Reduction reduction = Reduction::kMean);

}  // namespace mezzo
