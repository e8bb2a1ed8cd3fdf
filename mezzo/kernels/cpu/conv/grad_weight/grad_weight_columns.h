// Weight gradients for images of few channels. The pixels under a row of the kernel, which are
// contiguous, are seen as the channels of one pixel.
#pragma once

#include <algorithm>

#include "mezzo/kernels/cpu/conv/grad_weight/grad_weight_plan.h"
#include "mezzo/kernels/kernel.h"

namespace mezzo::kernels::grad_weight {

// The sum over pixels q of dy[q][o] * x[q * stride + column][c] is itself a weight gradient: of an
// image with a channel for each (column, c), and a kernel of a single column. Its panels of 16
// channels are less empty. A ResNet's first layer has three channels and seven columns: two panels
// and seven taps take the place of one panel and 49 taps.
//
// True if that takes at most half of the products, and there are more than 16 channels of y; with
// dot products, 12 of both are enough.
bool joins_columns(const Problem& problem);

// The same problem in that form, of images [n, kw * c, h, width of y]. These images are not stored:
// a pixel is a piece of a stored row, unless the kernel is dilated or padding is part of it.
Problem with_joined_columns(Problem problem);

// The pixels [begin, end) of a row that are such pieces; `width` is that of y.
struct InPlace {
  std::int64_t begin = 0, end = 0;
};
InPlace pixels_in_place(const JoinedColumns& joined, std::int64_t width);

// Copies pixel q of a stored row: all columns, with zeros for padding.
template <class T>
void copy_joined_pixel(const JoinedColumns& joined, const T* row, std::int64_t q, T* out) {
  for (std::int64_t column = 0; column < joined.columns; ++column, out += joined.channels) {
    const std::int64_t at = joined.first(q) + column * joined.step;
    if (at >= 0 && at < joined.pixels) {
      std::copy_n(row + at * joined.channels, joined.channels, out);
    } else {
      std::fill_n(out, joined.channels, T());
    }
  }
}

// The weight gradient [o, c, kh, kw] as a view of the joined form's gradient [o, kw * c, kh, 1].
Tensor split_columns(const Tensor& joined, const Problem& problem);

}  // namespace mezzo::kernels::grad_weight
