// What the windows of a convolution meet of an image, where no two of them overlap.
#pragma once

#include "mezzo/core/tensor.h"
#include "mezzo/ops/window.h"

namespace mezzo::kernels::conv {

// Windows of `size` pixels, `stride` apart, the first one in the image's corner.
struct PatchGrid {
  Size2d count{};
  Size2d size = 1;
  Size2d stride = 1;  // at least the size
};

// A copy [n, size.h * size.w * c, count.h, count.w] of a channels-last image [n, c, h, w]: patches
// as pixels, whose channels are rows of pixels, one after the other. Channels-last, too.
Tensor gather_patches(const Tensor& image, const PatchGrid& grid);

// Writes the patches back to where gather_patches() finds them, and zeros elsewhere.
void spread_patches(const Tensor& patches, const PatchGrid& grid, const Tensor& image);

}  // namespace mezzo::kernels::conv
