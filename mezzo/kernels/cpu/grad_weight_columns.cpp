#include "mezzo/kernels/cpu/grad_weight_columns.h"

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "mezzo/core/parallel.h"

namespace mezzo::kernels::grad_weight {
namespace {

std::int64_t panels(std::int64_t channels) { return (channels + kPanel - 1) / kPanel; }

// One row of an image and of what becomes of it, in bytes.
struct JoinedRow {
  std::int64_t pixels = 0;  // of the image's row
  std::size_t pixel = 0;    // bytes of one
  std::int64_t stride = 1, step = 1, left = 0;
  std::int64_t columns = 0;  // of the kernel
  std::int64_t results = 0;  // pixels of the result's row

  void copy(const std::byte* from, std::byte* to) const {
    const auto bytes = static_cast<std::size_t>(columns) * pixel;
    for (std::int64_t q = 0; q < results; ++q, to += bytes) {
      const std::int64_t first = q * stride - left;
      const bool is_inside = first >= 0 && first + columns <= pixels;
      if (is_inside && step == 1) {
        std::memcpy(to, from + static_cast<std::size_t>(first) * pixel, bytes);
      } else {
        copy_pixels(from, first, to);
      }
    }
  }

 private:
  void copy_pixels(const std::byte* from, std::int64_t first, std::byte* to) const {
    for (std::int64_t j = 0; j < columns; ++j, to += pixel) {
      const std::int64_t at = first + j * step;
      if (at >= 0 && at < pixels) {
        std::memcpy(to, from + static_cast<std::size_t>(at) * pixel, pixel);
      } else {
        std::memset(to, 0, pixel);
      }
    }
  }
};

}  // namespace

bool joins_columns(const Problem& p) {
  // A single panel of y is read once, whatever it is multiplied by: then the copy costs more.
  return p.kernel.w > 1 && p.out_channels > kPanel &&
         2 * panels(p.kernel.w * p.in_channels) <= p.kernel.w * panels(p.in_channels);
}

Problem with_joined_columns(Problem p) {
  p.in_channels *= p.kernel.w;
  p.x.w = p.y.w;
  p.kernel.w = 1;
  p.attrs.stride.w = 1;
  p.attrs.dilation.w = 1;
  p.attrs.padding.left = p.attrs.padding.right = 0;
  return p;
}

Tensor join_columns(const Tensor& x, const Problem& p) {
  const Tensor joined =
      empty({p.images, p.kernel.w * p.in_channels, p.x.h, p.y.w}, x.dtype(), Format::kChannelsLast);
  const JoinedRow row{.pixels = p.x.w,
                      .pixel = static_cast<std::size_t>(p.in_channels) * size_of(x.dtype()),
                      .stride = p.attrs.stride.w,
                      .step = p.attrs.dilation.w,
                      .left = p.attrs.padding.left,
                      .columns = p.kernel.w,
                      .results = p.y.w};
  const std::size_t from_row = static_cast<std::size_t>(p.x.w) * row.pixel;
  const std::size_t to_row = static_cast<std::size_t>(p.y.w * p.kernel.w) * row.pixel;
  const auto* from = static_cast<const std::byte*>(x.raw_data());
  auto* to = static_cast<std::byte*>(joined.mutable_raw_data());
  constexpr std::size_t kGrainBytes = 1 << 15;
  const auto grain = static_cast<std::int64_t>(kGrainBytes / std::max<std::size_t>(to_row, 1)) + 1;
  parallel_for(p.images * p.x.h, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const auto at = static_cast<std::size_t>(i);
      row.copy(from + at * from_row, to + at * to_row);
    }
  });
  return joined;
}

Tensor split_columns(const Tensor& joined, const Problem& p) {
  const std::int64_t rows = p.kernel.h;
  const std::int64_t column = p.in_channels * rows;
  return alias(joined, {p.out_channels, p.in_channels, rows, p.kernel.w},
               {p.kernel.w * column, rows, 1, column}, 0);
}

}  // namespace mezzo::kernels::grad_weight
