// Windows of images, one after the other.
#pragma once

#include <algorithm>
#include <cstdint>

#include "mezzo/ops/window.h"

namespace mezzo::kernels::conv {

// f32 numbers [images, count.h, count.w, kernel.h, kernel.w * channels] of images of size `image`.
struct Windows {
  const float* numbers = nullptr;
  std::int64_t channels = 0;
  Size2d count{}, kernel{}, stride{}, image{};
  Sides padding{};

  // Numbers of a window's row.
  std::int64_t piece() const { return kernel.w * channels; }
  // Pixels of an image's row with its padding, as far as windows or the image reach.
  std::int64_t row_pixels() const {
    return std::max((count.w - 1) * stride.w + kernel.w, padding.left + image.w);
  }
};

}  // namespace mezzo::kernels::conv
