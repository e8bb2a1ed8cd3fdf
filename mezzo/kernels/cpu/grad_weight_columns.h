// Images of few channels for the gradient by a convolution's weight: the pixels that a row of the
// kernel reads, side by side as the channels of one pixel.
#pragma once

#include "mezzo/kernels/cpu/grad_weight_plan.h"
#include "mezzo/kernels/kernel.h"

namespace mezzo::kernels::grad_weight {

// The sum over pixels q of dy[q][o] * x[q * stride + column][c] is one for kernels of a single
// column, of an image with a channel for each (column, c). Panels of 16 channels are then less
// empty: for the three channels and seven columns of a ResNet's first layer, two panels and seven
// taps take the place of one panel and 49 taps.
//
// True if that is at most half of the products, and there are more than 16 channels of y.
bool joins_columns(const Problem& problem);

// The same problem in that form, and its image [n, kw * c, h, width of y], channels-last.
Problem with_joined_columns(Problem problem);
Tensor join_columns(const Tensor& x, const Problem& problem);

// The weight's gradient [o, c, kh, kw] in what comes of that form, [o, kw * c, kh, 1]: a view.
Tensor split_columns(const Tensor& joined, const Problem& problem);

}  // namespace mezzo::kernels::grad_weight
