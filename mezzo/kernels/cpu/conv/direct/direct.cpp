#include "mezzo/kernels/cpu/conv/direct/direct.h"

#include <algorithm>
#include <atomic>
#include <vector>

#include "mezzo/core/tensor.h"
#include "mezzo/kernels/cpu/gemm/tile_sums-inl.h"
#include "mezzo/kernels/cpu/gemm/tiles.h"

namespace mezzo::kernels::direct {

#if MEZZO_TILES

namespace {

// A copy of a band's pixels, one panel of channels after the other.
class BandCopy {
 public:
  BandCopy(const Plan& plan, const BFloat16* x)
      : plan_(plan),
        x_(x),
        plane_positions_(plan.positions()),
        positions_(plane_positions_ * static_cast<std::int64_t>(plan.image.planes.size())),
        memory_(empty({positions_ * plan.inner}, DType::kBf16)),
        pixels_(memory_.mutable_data<BFloat16>()) {}

  // Copies the pixels that rows [begin, end) of the results read.
  void fill(std::int64_t begin, std::int64_t end);

  std::int64_t width(std::int64_t first_channel) const {
    return std::min(plan_.panel, plan_.inner - first_channel);
  }
  const BFloat16* panel(std::int64_t first_channel) const {
    return pixels_ + first_channel * positions_;
  }

 private:
  BFloat16* place(std::int64_t first_channel, std::int64_t position) const {
    return pixels_ + first_channel * positions_ + position * width(first_channel);
  }
  void clear(std::int64_t begin, std::int64_t end);
  void fill(const Size2d& plane, std::int64_t to, std::int64_t begin, std::int64_t end);
  MEZZO_TILE_TARGET std::int64_t copy_row(std::int64_t row, std::int64_t first, std::int64_t to);

  const Plan& plan_;
  const BFloat16* x_;
  std::int64_t plane_positions_, positions_;
  Tensor memory_;
  BFloat16* pixels_;
};

void BandCopy::clear(std::int64_t begin, std::int64_t end) {
  for (std::int64_t first = 0; first < plan_.inner; first += plan_.panel) {
    std::fill(place(first, begin), place(first, end), BFloat16());
  }
}

// Copies `width` channels of each pixel, whole cache lines, to contiguous memory.
MEZZO_TILE_TARGET void copy_pixels(const BFloat16* from, std::int64_t step, std::int64_t pixels,
                                   std::int64_t width, BFloat16* to) {
  for (std::int64_t i = 0; i < pixels; ++i, from += step) {
    for (std::int64_t c = 0; c < width; c += kBlock, to += kBlock) {
      _mm512_storeu_si512(to, _mm512_loadu_si512(from + c));
    }
  }
}

// Copies every image.apart.w-th pixel of a row from `first` on; returns the position after them.
MEZZO_TILE_TARGET std::int64_t BandCopy::copy_row(std::int64_t row, std::int64_t first,
                                                  std::int64_t to) {
  const TallImage& image = plan_.image;
  const std::int64_t apart = image.apart.w;
  const std::int64_t pixels = std::max<std::int64_t>(image.whole.w - first + apart - 1, 0) / apart;
  const BFloat16* const from = x_ + (row * image.whole.w + first) * plan_.inner;
  if (plan_.panel == plan_.inner && apart == 1) {
    std::copy_n(from, pixels * plan_.inner, place(0, to));
    return to + pixels;
  }
  const std::int64_t step = apart * plan_.inner;
  for (std::int64_t c = 0; c < plan_.inner; c += plan_.panel) {
    copy_pixels(from + c, step, pixels, width(c), place(c, to));
  }
  return to + pixels;
}

void BandCopy::fill(const Size2d& plane, std::int64_t to, std::int64_t begin, std::int64_t end) {
  const TallImage& image = plan_.image;
  const std::int64_t after = to + plane_positions_;
  for (std::int64_t t = begin; t < end + image.rows_after.h; ++t, to += image.pitch()) {
    const std::int64_t row = image.row_read(t, plane);
    if (row == TallImage::kNone) {
      clear(to, to + image.pitch());
      continue;
    }
    const std::int64_t first = to + image.padding.left;
    clear(to, first);
    clear(copy_row(row, plane.w, first), to + image.pitch());
  }
  clear(to, after);
}

void BandCopy::fill(std::int64_t begin, std::int64_t end) {
  std::int64_t to = 0;
  for (const Size2d& plane : plan_.image.planes) {
    fill(plane, to, begin, end);
    to += plane_positions_;
  }
}

// Computes bands, one after the other.
class Bands {
 public:
  Bands(const Plan& plan, const Call& call)
      : plan_(plan),
        call_(call),
        copy_(plan, call.x),
        sums_(static_cast<std::size_t>(plan.columns / kBlock)) {}

  struct Columns {
    std::int64_t begin = 0, end = 0;
  };
  void compute(std::int64_t band, const Columns& columns);

 private:
  void compute(const Phase& phase, std::int64_t rows, const Columns& columns);
  MEZZO_TILE_TARGET void compute_strip(const Phase& phase, std::int64_t position,
                                       const Columns& columns);
  MEZZO_TILE_TARGET void add_panel(const Phase& phase, std::int64_t position, std::int64_t first,
                                   std::int64_t column) const;
  MEZZO_TILE_TARGET void store(const Phase& phase, std::int64_t position, std::int64_t column,
                               const TileSums& sums) const;

  const Plan& plan_;
  const Call& call_;
  BandCopy copy_;
  std::vector<TileSums> sums_;        // of the columns
  std::vector<std::int64_t> pixels_;  // first pixel of each row of the band
};

// Adds the products of a panel to the sums in the registers.
MEZZO_TILE_TARGET void Bands::add_panel(const Phase& phase, std::int64_t position,
                                        std::int64_t first, std::int64_t column) const {
  const std::int64_t width = copy_.width(first);
  const std::int64_t block_bytes = plan_.taps * kTileBytes;
  const std::int64_t row_bytes = plan_.inner / kBlock * block_bytes;
  const char* left = call_.weight + column / kTileRows * row_bytes + first / kBlock * block_bytes;
  const BFloat16* x = copy_.panel(first) + position * width;
  TileStoresAwake stores;
  for (std::int64_t c = 0; c < width; c += kBlock, x += kBlock, left += block_bytes) {
    for (const Phase::Tap& tap : phase.taps) {
      add_products(x + tap.step * width, width, left + tap.index * kTileBytes, row_bytes);
      stores.note_block();
    }
  }
}

MEZZO_TILE_TARGET void Bands::store(const Phase& phase, std::int64_t position, std::int64_t column,
                                    const TileSums& sums) const {
  const std::int64_t pitch = plan_.image.pitch();
  const std::int64_t line = plan_.stride.w * plan_.outer;
  const auto rows = static_cast<std::int64_t>(pixels_.size());
  const pixels::ColumnBias bias(call_.bias, column);
  std::int64_t i = position % pitch;
  std::int64_t r = 0;
  for (std::int64_t row = position / pitch; row < rows && r < kStrip;
       ++row, r += pitch - i, i = 0) {
    const std::int64_t pixel = pixels_[static_cast<std::size_t>(row)];
    if (pixel == TallImage::kNone) continue;
    BFloat16* y = call_.y + pixel * plan_.outer + i * line + column;
    const std::int64_t end = std::min(r + phase.count.w - i, kStrip);
    for (std::int64_t s = r; s < end; ++s, y += line) {
      _mm512_storeu_si512(y, rounded_row(sums, s, bias));
    }
  }
}

MEZZO_TILE_TARGET void Bands::compute_strip(const Phase& phase, std::int64_t position,
                                            const Columns& columns) {
  // The compiler does not know that tile loads read memory.
  std::atomic_signal_fence(std::memory_order_seq_cst);
  for (std::int64_t first = 0; first < plan_.inner; first += plan_.panel) {
    const bool is_last = first + plan_.panel >= plan_.inner;
    for (std::int64_t c = columns.begin; c < columns.end; c += kBlock) {
      TileSums& sums = sums_[static_cast<std::size_t>((c - columns.begin) / kBlock)];
      first == 0 ? clear_sums() : load_sums(sums);
      add_panel(phase, position, first, c);
      store_sums(sums);
      if (is_last) store(phase, position, c, sums);
    }
  }
}

void Bands::compute(const Phase& phase, std::int64_t rows, const Columns& columns) {
  const std::int64_t positions = rows * plan_.image.pitch();
  for (std::int64_t position = 0; position < positions; position += kStrip) {
    compute_strip(phase, position, columns);
  }
}

void Bands::compute(std::int64_t band, const Columns& columns) {
  const std::int64_t begin = band * plan_.band;
  const std::int64_t end = std::min(begin + plan_.band, plan_.image.result_rows());
  copy_.fill(begin, end);
  for (const Phase& phase : plan_.phases) {
    pixels_.clear();
    for (std::int64_t t = begin; t < end; ++t) pixels_.push_back(plan_.pixel_of_row(phase, t));
    for (std::int64_t c = columns.begin; c < columns.end; c += plan_.columns) {
      compute(phase, end - begin, {c, std::min(c + plan_.columns, columns.end)});
    }
  }
}

}  // namespace

void convolve(const Plan& plan, const Call& call, std::int64_t begin, std::int64_t end) {
  const TileRegisters registers;
  Bands bands(plan, call);
  for (std::int64_t part = begin; part < end; ++part) {
    const std::int64_t column = part / plan.bands() * plan.share;
    bands.compute(part % plan.bands(), {column, std::min(column + plan.share, plan.outer)});
  }
}

#else

void convolve(const Plan&, const Call&, std::int64_t, std::int64_t) {}

#endif

}  // namespace mezzo::kernels::direct
