#include "mezzo/kernels/cpu/conv/direct/direct_narrow.h"

#include <algorithm>
#include <atomic>
#include <cstring>

#include "mezzo/core/math.h"
#include "mezzo/core/tensor.h"
#include "mezzo/kernels/cpu/gemm/tile_sums-inl.h"
#include "mezzo/kernels/cpu/gemm/tiles.h"
#include "mezzo/kernels/cpu/loops/cache_sizes.h"

namespace mezzo::kernels::direct_narrow {

Problem problem_of(const conv::Problem& p) {
  const Size2d kernel{p.weight[2], p.weight[3]};
  const Size2d x{p.x[2], p.x[3]};
  const Size2d y{p.y[2], p.y[3]};
  const Sides& padding = p.attrs.padding;
  if (p.pass == conv::Pass::kForward) {
    return {.images = p.x[0],
            .x = x,
            .y = y,
            .kernel = kernel,
            .top = padding.top,
            .left = padding.left,
            .channels = p.weight[1],
            .outs = p.weight[0]};
  }
  return {.images = p.x[0],
          .x = y,
          .y = x,
          .kernel = kernel,
          .top = kernel.h - 1 - padding.top,
          .left = kernel.w - 1 - padding.left,
          .channels = p.weight[0],
          .outs = p.weight[1]};
}
namespace {

constexpr std::int64_t kMostWidth = 32;  // values in a tile's row
constexpr std::int64_t kMostTiles = 4;   // tiles of sums at once

// The number of result rows whose copied input stays in the first-level cache.
std::int64_t band_of(const Plan& plan) {
  constexpr std::int64_t kBytes = kCachesWithTiles.first / 2;
  const Problem& p = plan.problem;
  const std::int64_t fitting = kBytes / 2 / plan.line();
  return std::clamp<std::int64_t>(fitting - p.kernel.h + 1, 1, p.y.h);
}

}  // namespace

Plan::Plan(const Problem& p) : problem(p) {
  channels = (p.channels + 1) / 2 * 2;
  out_tiles = ceil_div(p.outs, kTileRows);
  const std::int64_t numbers = p.kernel.w * channels;
  for (std::int64_t n = ceil_div(numbers, kMostWidth); n <= numbers / 2; ++n) {
    if (numbers % (2 * n) != 0) continue;
    blocks = n;
    width = numbers / n;
    break;
  }
  band = band_of(*this);
}

void pack(const Plan& plan, const Weight& weight, char* tiles) {
  constexpr std::int64_t kNumbers = kTileBytes / 2;
  const Problem& p = plan.problem;
  auto* const out = reinterpret_cast<BFloat16*>(tiles);
  std::fill_n(out, plan.weight_tiles() * kNumbers, BFloat16());
  const std::int64_t numbers = plan.blocks * plan.width;  // values in a row of the kernel
  for (std::int64_t i = 0; i < p.kernel.h * numbers; ++i) {
    const std::int64_t k = i % numbers;
    const std::int64_t channel = k % plan.channels;
    if (channel >= p.channels) continue;
    const std::int64_t row = i / numbers;
    const BFloat16* from = weight.first + row * weight.row + k / plan.channels * weight.column +
                           channel * weight.channel;
    BFloat16* const block = out + (row * plan.blocks + k / plan.width) * plan.out_tiles * kNumbers;
    BFloat16* const pair = block + k % plan.width / 2 * kTileRows * 2 + k % 2;
    for (std::int64_t o = 0; o < p.outs; ++o, from += weight.out) {
      pair[o / kTileRows * kNumbers + o % kTileRows * 2] = *from;
    }
  }
}

#if MEZZO_TILES

namespace {

// Copies of the rows that a band reads, with zeros for the padding.
class Lines {
 public:
  Lines(const Plan& plan, const BFloat16* x)
      : plan_(plan),
        x_(x),
        memory_(zeros({plan.lines() * plan.line()}, DType::kBf16)),
        numbers_(memory_.mutable_data<BFloat16>()) {}

  // Copies `count` rows of an image from row `first` on; rows may lie in the padding.
  void fill(std::int64_t image, std::int64_t first, std::int64_t count);
  const char* line(std::int64_t i) const {
    return reinterpret_cast<const char*>(numbers_ + i * plan_.line());
  }

 private:
  void copy(const BFloat16* from, std::int64_t pixels, BFloat16* to) const;

  const Plan& plan_;
  const BFloat16* x_;
  Tensor memory_;
  BFloat16* numbers_;
};

// Only pixels are written: the padding beside them stays zero.
void Lines::fill(std::int64_t image, std::int64_t first, std::int64_t count) {
  const Problem& p = plan_.problem;
  // If a convolution's padding is wider than its kernel, its last results read no pixel.
  const std::int64_t pixels = std::min(p.x.w, plan_.line() / plan_.channels - p.left);
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t row = first + i;
    BFloat16* const to = numbers_ + i * plan_.line() + p.left * plan_.channels;
    if (row < 0 || row >= p.x.h) {
      std::fill_n(to, pixels * plan_.channels, BFloat16());
    } else {
      copy(x_ + (image * p.x.h + row) * p.x.w * p.channels, pixels, to);
    }
  }
}

// The case of one channel; three channels follow. Two loads and stores of so few bytes each would
// take most of the time.
MEZZO_TILE_TARGET void widen_singles(const BFloat16* from, std::int64_t pixels, BFloat16* to) {
  auto* const bytes = reinterpret_cast<char*>(to);
  for (std::int64_t i = 0; i < pixels; ++i) {
    const std::uint32_t pair = from[i].bits;
    std::memcpy(bytes + i * 4, &pair, sizeof(pair));
  }
}
MEZZO_TILE_TARGET void widen_triples(const BFloat16* from, std::int64_t pixels, BFloat16* to) {
  constexpr std::uint64_t kTriple = 0xffffffffffffU;
  auto* const bytes = reinterpret_cast<char*>(to);
  for (std::int64_t i = 0; i + 1 < pixels; ++i) {
    std::uint64_t four = 0;
    std::memcpy(&four, from + 3 * i, sizeof(four));
    four &= kTriple;
    std::memcpy(bytes + i * 8, &four, sizeof(four));
  }
  std::copy_n(from + 3 * (pixels - 1), 3, to + 4 * (pixels - 1));  // nothing follows the last pixel
}

void Lines::copy(const BFloat16* from, std::int64_t pixels, BFloat16* to) const {
  const std::int64_t channels = plan_.problem.channels;
  if (channels == plan_.channels) {
    std::copy_n(from, pixels * channels, to);
  } else if (channels == 1) {
    widen_singles(from, pixels, to);
  } else if (channels == 3) {
    widen_triples(from, pixels, to);
  } else {
    for (std::int64_t i = 0; i < pixels; ++i, from += channels, to += plan_.channels) {
      std::copy_n(from, channels, to);  // the padding channel stays zero
    }
  }
}

// The input of some tiles of pixels.
struct Strip {
  const char* x = nullptr;  // at the kernel's first row
  std::int64_t line = 0;    // bytes from row to row
  std::int64_t pixel = 0;   // bytes from pixel to pixel
  std::int64_t next = 0;    // bytes from tile to tile of pixels
  const char* weight = nullptr;
};

// Adds the products of one block: kM tiles of pixels by kN of outputs, at most four in all.
template <int kM, int kN>
MEZZO_TILE_TARGET void add_block(const char* x, const Strip& strip, const char* weight) {
  const std::int64_t pixel = strip.pixel;
  const std::int64_t next = strip.next;
  _tile_loadd(4, x, pixel);
  _tile_loadd(6, weight, kTileRowBytes);
  _tile_dpbf16ps(0, 4, 6);
  if constexpr (kN == 1) {
    if constexpr (kM > 1) {
      _tile_loadd(5, x + next, pixel);
      _tile_dpbf16ps(1, 5, 6);
    }
    if constexpr (kM > 2) {
      _tile_loadd(4, x + 2 * next, pixel);
      _tile_dpbf16ps(2, 4, 6);
    }
    if constexpr (kM > 3) {
      _tile_loadd(5, x + 3 * next, pixel);
      _tile_dpbf16ps(3, 5, 6);
    }
  } else {
    _tile_loadd(7, weight + kTileBytes, kTileRowBytes);
    _tile_dpbf16ps(1, 4, 7);
    if constexpr (kM > 1) {
      _tile_loadd(5, x + next, pixel);
      _tile_dpbf16ps(2, 5, 6);
      _tile_dpbf16ps(3, 5, 7);
    }
    if constexpr (kN > 2) {
      _tile_loadd(6, weight + 2 * kTileBytes, kTileRowBytes);
      _tile_dpbf16ps(2, 4, 6);
    }
    if constexpr (kN > 3) {
      _tile_loadd(7, weight + 3 * kTileBytes, kTileRowBytes);
      _tile_dpbf16ps(3, 4, 7);
    }
  }
}

template <int kCount>
MEZZO_TILE_TARGET void store_first(TileSums& sums) {
  _tile_stored(0, sums.tiles[0], kTileRowBytes);
  if constexpr (kCount > 1) _tile_stored(1, sums.tiles[1], kTileRowBytes);
  if constexpr (kCount > 2) _tile_stored(2, sums.tiles[2], kTileRowBytes);
  if constexpr (kCount > 3) _tile_stored(3, sums.tiles[3], kTileRowBytes);
}

template <int kM, int kN>
MEZZO_TILE_TARGET void add_up(const Plan& plan, const Strip& strip, TileSums& sums) {
  clear_sums();
  TileStoresAwake stores;
  const char* weight = strip.weight;
  for (std::int64_t row = 0; row < plan.problem.kernel.h; ++row) {
    const char* x = strip.x + row * strip.line;
    for (std::int64_t block = 0; block < plan.blocks; ++block) {
      add_block<kM, kN>(x, strip, weight);
      stores.note_block();
      x += 2 * plan.width;
      weight += kN * kTileBytes;
    }
  }
  store_first<kM * kN>(sums);
}

// Computes bands, one after the other.
class Bands {
 public:
  Bands(const Plan& plan, const Call& call) : plan_(plan), call_(call), lines_(plan, call.x) {}

  void compute(std::int64_t image, std::int64_t band);

 private:
  MEZZO_TILE_TARGET void compute_tiles(const char* x, std::int64_t count, std::int64_t pixels,
                                       BFloat16* y);
  MEZZO_TILE_TARGET void add_tiles(const Strip& strip, std::int64_t count);
  MEZZO_TILE_TARGET void store(std::int64_t tile, std::int64_t out, std::int64_t pixels,
                               BFloat16* y) const;

  const Plan& plan_;
  const Call& call_;
  Lines lines_;
  TileSums sums_;
};

MEZZO_TILE_TARGET void Bands::add_tiles(const Strip& strip, std::int64_t count) {
  if (plan_.out_tiles == 1) {
    if (count == 1) return add_up<1, 1>(plan_, strip, sums_);
    if (count == 2) return add_up<2, 1>(plan_, strip, sums_);
    if (count == 3) return add_up<3, 1>(plan_, strip, sums_);
    return add_up<4, 1>(plan_, strip, sums_);
  }
  if (plan_.out_tiles == 2) {
    return count == 1 ? add_up<1, 2>(plan_, strip, sums_) : add_up<2, 2>(plan_, strip, sums_);
  }
  return plan_.out_tiles == 3 ? add_up<1, 3>(plan_, strip, sums_)
                              : add_up<1, 4>(plan_, strip, sums_);
}

// Stores a tile's sums: outputs from `out` on, of `pixels` pixels.
MEZZO_TILE_TARGET void Bands::store(std::int64_t tile, std::int64_t out, std::int64_t pixels,
                                    BFloat16* y) const {
  const std::int64_t outs = plan_.problem.outs;
  const auto mask =
      static_cast<__mmask16>(0xffffU >> (kTileRows - std::min(kTileRows, outs - out)));
  const __m512 bias =
      call_.bias != nullptr ? _mm512_maskz_loadu_ps(mask, call_.bias + out) : _mm512_setzero_ps();
  const float* from = sums_.tiles[tile];
  for (std::int64_t i = 0; i < pixels; ++i, from += kTileRows, y += outs) {
    // Rounds to nearest, ties to even, and subnormals to zero, as core/half.h says.
    const __m256bh rounded = _mm512_cvtneps_pbh(_mm512_add_ps(_mm512_load_ps(from), bias));
    _mm256_mask_storeu_epi16(y + out, mask, reinterpret_cast<__m256i>(rounded));
  }
}

// Computes `count` tiles of a row, or of consecutive rows if a row takes one tile at most.
MEZZO_TILE_TARGET void Bands::compute_tiles(const char* x, std::int64_t count, std::int64_t pixels,
                                            BFloat16* y) {
  // The compiler does not know that tile loads read memory.
  std::atomic_signal_fence(std::memory_order_seq_cst);
  const Problem& p = plan_.problem;
  const bool is_one_row = plan_.strips() > 1;
  const std::int64_t line = 2 * plan_.line();
  const std::int64_t pixel = 2 * plan_.channels;
  const std::int64_t next = is_one_row ? kTileRows : p.y.w;  // in pixels of the result
  add_tiles({.x = x,
             .line = line,
             .pixel = pixel,
             .next = is_one_row ? kTileRows * pixel : line,
             .weight = call_.weight},
            count);
  for (std::int64_t i = 0; i < count; ++i, y += next * p.outs) {
    const std::int64_t left = is_one_row ? pixels - i * kTileRows : pixels;
    for (std::int64_t t = 0; t < plan_.out_tiles; ++t) {
      store(i * plan_.out_tiles + t, t * kTileRows, std::min(kTileRows, left), y);
    }
  }
}

void Bands::compute(std::int64_t image, std::int64_t band) {
  const Problem& p = plan_.problem;
  const std::int64_t begin = band * plan_.band;
  const std::int64_t end = std::min(begin + plan_.band, p.y.h);
  lines_.fill(image, begin - p.top, end - begin - 1 + p.kernel.h);
  const std::int64_t most = std::max<std::int64_t>(1, kMostTiles / plan_.out_tiles);
  BFloat16* y = call_.y + (image * p.y.h + begin) * p.y.w * p.outs;
  const std::int64_t rows = plan_.strips() == 1 ? most : 1;
  const std::int64_t strips = plan_.strips() == 1 ? 1 : most;
  for (std::int64_t row = begin; row < end; row += rows) {
    const char* x = lines_.line(row - begin);
    for (std::int64_t first = 0; first < plan_.strips(); first += strips) {
      const std::int64_t pixel = first * kTileRows;
      const std::int64_t count =
          strips > 1 ? std::min(strips, plan_.strips() - first) : std::min(rows, end - row);
      compute_tiles(x + 2 * pixel * plan_.channels, count, p.y.w - pixel,
                    y + ((row - begin) * p.y.w + pixel) * p.outs);
    }
  }
}

}  // namespace

void convolve(const Plan& plan, const Call& call, std::int64_t begin, std::int64_t end) {
  const TileRegisters registers(plan.width);
  Bands bands(plan, call);
  for (std::int64_t part = begin; part < end; ++part) {
    bands.compute(part / plan.bands(), part % plan.bands());
  }
}

#else

void convolve(const Plan&, const Call&, std::int64_t, std::int64_t) {}

#endif

}  // namespace mezzo::kernels::direct_narrow
