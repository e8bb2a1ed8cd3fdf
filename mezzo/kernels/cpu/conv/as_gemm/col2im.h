// The windows of images, one after the other: the input of col2im.
#pragma once

#include <algorithm>
#include <cstdint>

#include "mezzo/ops/window.h"

namespace mezzo::kernels::conv {

// f32 values [images, count.h, count.w, kernel.h, kernel.w * channels]: windows of images of size
// `image`.
struct Windows {
  const float* numbers = nullptr;
  std::int64_t channels = 0;
  Size2d count{}, kernel{}, stride{}, image{};
  Sides padding{};

  // Values in a row of a window.
  std::int64_t piece() const { return kernel.w * channels; }
  // Pixels in a row of the padded image, up to the end of the windows or of the image.
  std::int64_t row_pixels() const {
    return std::max((count.w - 1) * stride.w + kernel.w, padding.left + image.w);
  }
};

}  // namespace mezzo::kernels::conv
