// Losses that grow linearly with the distance of a prediction from its target, not with its square.
//
// Prediction and target have one shape and any floating dtype. The f32 loss (f64 from f64) is
// averaged, summed, or returned for each element with kNone. All throw ArgumentError if the shapes
// differ.
#pragma once

#include "mezzo/core/tensor.h"
#include "mezzo/ops/losses.h"

namespace mezzo {

// |d|, where d = prediction - target. The gradient where they are equal is 0.
Tensor l1_loss(const Tensor& prediction, const Tensor& target,
               Reduction reduction = Reduction::kMean);

// d^2 / (2 beta) where |d| < beta, |d| - beta / 2 elsewhere (Girshick, "Fast R-CNN", ICCV 2015, for
// beta 1); l1_loss() for beta 0. Throws ArgumentError unless beta is finite and not negative.
Tensor smooth_l1_loss(const Tensor& prediction, const Tensor& target, double beta = 1,
                      Reduction reduction = Reduction::kMean);

// d^2 / 2 where |d| < delta, delta (|d| - delta / 2) elsewhere: delta times smooth_l1_loss() with
// that beta (Huber, "Robust estimation of a location parameter", Annals of Mathematical Statistics
// 35, 1964). Throws ArgumentError unless delta is finite and positive.
Tensor huber_loss(const Tensor& prediction, const Tensor& target, double delta = 1,
                  Reduction reduction = Reduction::kMean);

}  // namespace mezzo
