// im2col for convolutions whose windows do not overlap.
#pragma once

#include "mezzo/core/tensor.h"
#include "mezzo/ops/window.h"

namespace mezzo::kernels::conv {

// A grid of windows of `size` pixels, `stride` apart; the first one is in the image's corner.
struct PatchGrid {
  Size2d count{};
  Size2d size = 1;
  Size2d stride = 1;  // at least the size
};

// A channels-last copy [n, size.h * size.w * c, count.h, count.w] of a channels-last image [n, c,
// h, w]. A patch becomes a pixel; its channels are the patch's pixels, row by row.
Tensor gather_patches(const Tensor& image, const PatchGrid& grid);

// The inverse: writes the patches to where gather_patches() finds them, and zeros elsewhere.
void spread_patches(const Tensor& patches, const PatchGrid& grid, const Tensor& image);

}  // namespace mezzo::kernels::conv
