#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "mezzo/kernels/cpu/onednn/pack_weight.cpp"
#include "mezzo/kernels/cpu/onednn/pack_weight.h"

#include <algorithm>

#include <hwy/foreach_target.h>

#include "mezzo/core/parallel.h"
#include "mezzo/kernels/cpu/onednn/pack_tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace mezzo::HWY_NAMESPACE {
namespace {

#if MEZZO_PACKS

// The order of tiles: taps of a square of n's and k's, then squares along k, then along n.
struct TilePlace {
  std::int64_t n = 0, k = 0, h = 0, w = 0;
};

template <bool kPaired>
void pack_place(const BlockedWeight& p, const float* from, std::uint32_t* to, const Rows& rows,
                const TilePlace& at) {
  to += at.h * p.to_h + at.w * p.to_w;
  if (at.n >= p.n) {  // padding
    for (const std::int64_t row : rows) std::fill_n(to + row, kTile, 0U);
  } else {
    from += at.n * p.from_n + at.k * p.from_k + at.h * p.from_h + at.w * p.from_w;
    pack_tile<kPaired, false>(p, from, to, rows);
  }
}

void pack(const BlockedWeight& p, const float* from, std::uint32_t* to) {
  constexpr std::int64_t kGrainNumbers = 1 << 14;
  const std::int64_t depth = kTile * p.pair;
  const std::int64_t tiles_n = p.padded_n / kTile;
  const std::int64_t tiles_k = p.k / depth;
  const std::int64_t taps = p.h * p.w;
  // Goes through tiles along the axis with the smaller stride, then to the next tap. The weight is
  // then read in as many streams as a tile has rows. All taps of a tile at once would be nine times
  // as many, more than the hardware prefetcher follows.
  const bool along_n = p.from_n < p.from_k;
  const std::int64_t inner = along_n ? tiles_n : tiles_k;
  const auto body = [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t tap = i / inner % taps;
      const std::int64_t outer = i / inner / taps;
      const std::int64_t n = (along_n ? i % inner : outer) * kTile;
      const std::int64_t k = (along_n ? outer : i % inner) * depth;
      const TilePlace at{n, k, tap / p.w, tap % p.w};
      if (p.pair == 2) {
        pack_place<true>(p, from, to, rows_of(p, n, k), at);
      } else {
        pack_place<false>(p, from, to, rows_of(p, n, k), at);
      }
    }
  };
  parallel_for(tiles_n * tiles_k * taps, kGrainNumbers / (kTile * depth), body);
}

// Unpacks one tap; the weight's own rows take the place of a tile's.
void unpack_tap(const BlockedWeight& p, const std::uint32_t* from, std::uint32_t* to,
                std::int64_t n) {
  Rows rows;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    rows[i] = (n + static_cast<std::int64_t>(i)) * p.from_n;
  }
  for (std::int64_t k = 0; k < p.k; k += kTile) {
    transpose_to<false>(from + rows_of(p, n, k)[0], p.n_block, to + k, rows);
  }
}

void unpack(const BlockedWeight& p, const std::uint32_t* from, std::uint32_t* to) {
  parallel_for(p.n / kTile, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t n = begin * kTile; n < end * kTile; n += kTile) {
      for (std::int64_t h = 0; h < p.h; ++h) {
        for (std::int64_t w = 0; w < p.w; ++w) {
          unpack_tap(p, from + h * p.to_h + w * p.to_w, to + h * p.from_h + w * p.from_w, n);
        }
      }
    }
  });
}

#else

void pack(const BlockedWeight&, const float*, std::uint32_t*) {}
void unpack(const BlockedWeight&, const std::uint32_t*, std::uint32_t*) {}

#endif

std::int64_t tile() { return kTile; }

}  // namespace
}  // namespace mezzo::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace mezzo::kernels::onednn {
namespace {

HWY_EXPORT(pack);
HWY_EXPORT(unpack);
HWY_EXPORT(tile);

}  // namespace

std::int64_t weight_tile() { return HWY_DYNAMIC_DISPATCH(tile)(); }

void pack_weight(const BlockedWeight& weight, const float* from, void* to) {
  HWY_DYNAMIC_DISPATCH(pack)(weight, from, static_cast<std::uint32_t*>(to));
}

bool can_unpack(const BlockedWeight& weight) {
  const std::int64_t tile = weight_tile();
  return weight.pair == 1 && weight.k_block % tile == 0 && weight.from_k == 1;
}

void unpack_weight(const BlockedWeight& weight, const void* from, float* to) {
  HWY_DYNAMIC_DISPATCH(unpack)
  (weight, static_cast<const std::uint32_t*>(from), reinterpret_cast<std::uint32_t*>(to));
}

}  // namespace mezzo::kernels::onednn
#endif
