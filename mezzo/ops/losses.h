// Losses. Each takes predictions of any floating dtype and gives an f32 loss (f64 from f64): a loss
// in 16 bits would hide the progress of training, and its scaled value would leave f16's range.
#pragma once

#include <optional>

#include "mezzo/core/tensor.h"

namespace mezzo {

// What becomes of the losses of the single examples.
enum class Reduction : std::uint8_t { kMean, kSum, kNone };

struct CrossEntropyOptions {
  double label_smoothing = 0;  // in [0, 1]
  Reduction reduction = Reduction::kMean;
  // The class number of examples that do not count: their loss and gradient are 0, and a mean is
  // over the others; NaN if there are none, as in PyTorch, where the number is -100.
  std::optional<std::int64_t> ignore_index{};
  // Floating [c], used in the dtype of the loss: what each class counts, `weight` in PyTorch.
  // Undefined: all classes the same.
  Tensor class_weights{};
};

// -sum(target * log_softmax(logits)) over the classes of each example; logits: [n, c]; labels:
// integers [n], or probabilities [n, c] of any floating dtype. With smoothing s the target is
// (1 - s) * label + s / c, as in PyTorch (Szegedy et al., "Rethinking the Inception architecture
// for computer vision", CVPR 2016, section 7). The result is a scalar, or [n] for kNone. Logits may
// have more axes, [n, c, h, w] for classes of pixels: labels are then integers [n, h, w], or
// probabilities of that shape, and kNone gives [n, h, w]. Throws ArgumentError for labels outside
// [0, c), naming the first, for class weights of another shape, and for an empty batch under kMean.
//
// With class weights w it is -sum(w * target * log_softmax(logits)), smoothing included. A mean of
// class numbers is then the sum of the losses divided by that of w[label], as in PyTorch; a mean of
// probabilities is over the examples as ever.
Tensor cross_entropy(const Tensor& logits, const Tensor& labels,
                     const CrossEntropyOptions& options = {});
// What a mean of class numbers is divided by, whatever the logits are: how many labels count, or
// the sum of their class weights. labels: integers of any shape of rank at most 5; the result is an
// f32 scalar. With it the loss of a batch can be put together from its parts:
//
//   sum of cross_entropy(logits, labels, {.reduction = kSum, ...}) / sum of cross_entropy_count()
//
// Labels that are no classes count nothing: cross_entropy() names them. Throws ArgumentError for
// probabilities, whose mean is over the examples, and for class weights that are no list.
Tensor cross_entropy_count(const Tensor& labels, const CrossEntropyOptions& options);
// Logits of places, such as pixels, [n, c, ...], as rows of classes: [n * ..., c].
Tensor class_rows(const Tensor& x);

// (prediction - target)^2, averaged or summed over all elements, or as it is for kNone. Throws
// ArgumentError if the shapes differ.
Tensor mse_loss(const Tensor& prediction, const Tensor& target,
                Reduction reduction = Reduction::kMean);

}  // namespace mezzo
