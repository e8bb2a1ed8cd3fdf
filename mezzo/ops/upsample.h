// Enlarging images.
#pragma once

#include "mezzo/core/tensor.h"
#include "mezzo/ops/window.h"

namespace mezzo {

// x [n, c, h, w] with every pixel repeated scale.h times down and scale.w times across: [n, c,
// h * scale.h, w * scale.w] in the dtype of x, channels-last. Throws ArgumentError unless x is
// floating-point and has four dimensions, and for a scale under 1.
Tensor upsample_nearest2d(const Tensor& x, Size2d scale);

}  // namespace mezzo
