#include "mezzo/kernels/cpu/conv/as_gemm/im2col.h"

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "mezzo/core/parallel.h"
#include "mezzo/core/scratch.h"

namespace mezzo::kernels::conv {
namespace {

// The byte layout of a channels-last image and its patches.
class Layout {
 public:
  Layout(const Tensor& image, const PatchGrid& grid)
      : grid_(grid),
        height_(image.size(2)),
        width_(image.size(3)),
        pixel_bytes_(static_cast<std::size_t>(image.size(1)) * size_of(image.dtype())) {}

  // Bytes of one row of a patch.
  std::size_t piece_bytes() const { return static_cast<std::size_t>(grid_.size.w) * pixel_bytes_; }
  std::size_t row_bytes() const { return static_cast<std::size_t>(width_) * pixel_bytes_; }

  std::size_t row_at(std::int64_t n, std::int64_t h) const {
    return static_cast<std::size_t>(n * height_ + h) * row_bytes();
  }
  // Bytes from one patch's row to the next patch's in a row of the image.
  std::size_t image_step() const { return static_cast<std::size_t>(grid_.stride.w) * pixel_bytes_; }

  // Where row `i` of the first patch lies, in row `h` of the patches.
  std::size_t piece_at(std::int64_t n, std::int64_t h, std::int64_t i) const {
    const std::int64_t patch = (n * grid_.count.h + h) * grid_.count.w;
    return static_cast<std::size_t>(patch * grid_.size.h + i) * piece_bytes();
  }
  std::size_t patch_step() const { return static_cast<std::size_t>(grid_.size.h) * piece_bytes(); }

  bool has_gaps() const {
    return grid_.stride != grid_.size || width_ != grid_.count.w * grid_.size.w;
  }

 private:
  const PatchGrid& grid_;
  std::int64_t height_, width_;
  std::size_t pixel_bytes_;
};

// Calls body(row) for [0, rows), in parallel.
template <class Body>
void for_rows(std::int64_t rows, std::size_t row_bytes, const Body& body) {
  constexpr std::size_t kGrainBytes = 1 << 16;
  const auto grain = static_cast<std::int64_t>(kGrainBytes / std::max<std::size_t>(row_bytes, 1));
  parallel_for(rows, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) body(row);
  });
}

}  // namespace

Tensor gather_patches(const Tensor& image, const PatchGrid& grid) {
  const Size2d size = grid.size;
  Tensor out = scratch({image.size(0), size.h * size.w * image.size(1), grid.count.h, grid.count.w},
                       image.dtype(), Format::kChannelsLast);
  const auto* const source = static_cast<const std::byte*>(image.raw_data());
  auto* const target = static_cast<std::byte*>(out.mutable_raw_data());
  const Layout layout(image, grid);
  for_rows(image.size(0) * grid.count.h * size.h, layout.row_bytes(), [&](std::int64_t row) {
    const std::int64_t i = row % size.h;
    const std::int64_t h = row / size.h % grid.count.h;
    const std::int64_t n = row / size.h / grid.count.h;
    const std::byte* from = source + layout.row_at(n, h * grid.stride.h + i);
    std::byte* to = target + layout.piece_at(n, h, i);
    for (std::int64_t w = 0; w < grid.count.w; ++w) {
      std::memcpy(to, from, layout.piece_bytes());
      from += layout.image_step();
      to += layout.patch_step();
    }
  });
  return out;
}

void spread_patches(const Tensor& patches, const PatchGrid& grid, const Tensor& image) {
  const auto* const source = static_cast<const std::byte*>(patches.raw_data());
  auto* const target = static_cast<std::byte*>(image.mutable_raw_data());
  const Layout layout(image, grid);
  for_rows(image.size(0) * image.size(2), layout.row_bytes(), [&](std::int64_t row) {
    const std::int64_t n = row / image.size(2);
    const std::int64_t h = row % image.size(2) / grid.stride.h;
    const std::int64_t i = row % image.size(2) % grid.stride.h;
    const bool is_met = h < grid.count.h && i < grid.size.h;
    std::byte* to = target + layout.row_at(n, row % image.size(2));
    if (!is_met || layout.has_gaps()) std::memset(to, 0, layout.row_bytes());
    if (!is_met) return;
    const std::byte* from = source + layout.piece_at(n, h, i);
    for (std::int64_t w = 0; w < grid.count.w; ++w) {
      std::memcpy(to, from, layout.piece_bytes());
      to += layout.image_step();
      from += layout.patch_step();
    }
  });
}

}  // namespace mezzo::kernels::conv
