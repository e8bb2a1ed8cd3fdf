#include "mezzo/kernels/cpu/strided_pixels.h"

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "mezzo/core/parallel.h"

namespace mezzo::kernels::conv {
namespace {

// A channels-last image as bytes.
struct Pixels {
  explicit Pixels(const Tensor& image)
      : height(image.size(2)),
        width(image.size(3)),
        bytes(static_cast<std::size_t>(image.size(1)) * size_of(image.dtype())) {}

  std::size_t row_bytes() const { return static_cast<std::size_t>(width) * bytes; }
  // From the first pixel of the batch on.
  std::size_t offset(std::int64_t n, std::int64_t h, std::int64_t w) const {
    return static_cast<std::size_t>((n * height + h) * width + w) * bytes;
  }

  std::int64_t height, width;
  std::size_t bytes;  // of a pixel
};

// Calls body(n, h) for all rows, in parallel.
template <class Body>
void for_rows(std::int64_t images, const Pixels& written, const Body& body) {
  constexpr std::size_t kGrainBytes = 1 << 16;
  const auto grain =
      static_cast<std::int64_t>(kGrainBytes / std::max<std::size_t>(written.row_bytes(), 1));
  parallel_for(images * written.height, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      body(row / written.height, row % written.height);
    }
  });
}

}  // namespace

Tensor gather_pixels(const Tensor& image, Size2d size, Size2d stride) {
  Tensor out =
      empty({image.size(0), image.size(1), size.h, size.w}, image.dtype(), Format::kChannelsLast);
  const auto* const source = static_cast<const std::byte*>(image.raw_data());
  auto* const target = static_cast<std::byte*>(out.mutable_raw_data());
  const Pixels from(image);
  const Pixels to(out);
  for_rows(image.size(0), to, [&](std::int64_t n, std::int64_t h) {
    for (std::int64_t w = 0; w < size.w; ++w) {
      std::memcpy(target + to.offset(n, h, w), source + from.offset(n, h * stride.h, w * stride.w),
                  to.bytes);
    }
  });
  return out;
}

void spread_pixels(const Tensor& from, const Tensor& to, Size2d stride) {
  const auto* const source = static_cast<const std::byte*>(from.raw_data());
  auto* const target = static_cast<std::byte*>(to.mutable_raw_data());
  const Pixels read(from);
  const Pixels written(to);
  for_rows(to.size(0), written, [&](std::int64_t n, std::int64_t h) {
    std::memset(target + written.offset(n, h, 0), 0, written.row_bytes());
    if (h % stride.h != 0) return;
    for (std::int64_t w = 0; w < read.width; ++w) {
      std::memcpy(target + written.offset(n, h, w * stride.w),
                  source + read.offset(n, h / stride.h, w), read.bytes);
    }
  });
}

}  // namespace mezzo::kernels::conv
