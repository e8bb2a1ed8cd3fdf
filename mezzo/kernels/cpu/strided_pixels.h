// The pixels of every stride-th row and column of an image, which are all that a 1x1 kernel at that
// stride meets.
#pragma once

#include "mezzo/core/tensor.h"
#include "mezzo/ops/window.h"

namespace mezzo::kernels::conv {

// A channels-last copy [n, c, size.h, size.w] of the first pixels of a channels-last image.
Tensor gather_pixels(const Tensor& image, Size2d size, Size2d stride);

// Writes the pixels of `from` to every stride-th row and column of `to`, which has no more of them,
// and zeros between them. Both are channels-last.
void spread_pixels(const Tensor& from, const Tensor& to, Size2d stride);

}  // namespace mezzo::kernels::conv
