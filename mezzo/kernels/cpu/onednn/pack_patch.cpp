#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "mezzo/kernels/cpu/onednn/pack_patch.cpp"
#include "mezzo/kernels/cpu/onednn/pack_patch.h"

#include <algorithm>
#include <numeric>
#include <tuple>
#include <utility>

#include <hwy/foreach_target.h>

#include "mezzo/kernels/cpu/onednn/pack_tile-inl.h"
#include "mezzo/kernels/cpu/onednn/pack_weight.h"

HWY_BEFORE_NAMESPACE();
namespace mezzo::HWY_NAMESPACE {
namespace {

#if MEZZO_PACKS

// The n's, k's and taps of a patch.
struct PatchRange {
  std::int64_t first_n = 0, last_n = 0;
  std::int64_t first_k = 0, last_k = 0;
  std::int64_t first_tap = 0, last_tap = 0;
};

PatchRange range_of(const BlockedWeight& p, const PatchGrid& grid, const Patch& patch) {
  const bool rows_are_n = p.from_n > p.from_k;
  const std::int64_t inner = rows_are_n ? p.k : p.n;
  const std::int64_t taps = p.h * p.w;
  const bool has_all_taps = taps > 1 && std::min(p.from_n, p.from_k) > 1;
  const std::int64_t tap = has_all_taps ? 0 : patch.column / inner;
  const std::int64_t first = has_all_taps ? patch.column / taps : patch.column - tap * inner;
  const std::int64_t last = first + (has_all_taps ? grid.columns / taps : grid.columns);
  const std::int64_t last_row = patch.row + grid.rows;
  PatchRange range{.first_tap = tap, .last_tap = has_all_taps ? taps : tap + 1};
  std::tie(range.first_n, range.last_n) =
      rows_are_n ? std::pair(patch.row, last_row) : std::pair(first, last);
  std::tie(range.first_k, range.last_k) =
      rows_are_n ? std::pair(first, last) : std::pair(patch.row, last_row);
  return range;
}

// Writes the zeros after the last n, for the k's of a patch.
void pad(const BlockedWeight& p, const PatchRange& r, std::uint32_t* to) {
  for (std::int64_t n = p.n; n < p.padded_n; n += kTile) {
    for (std::int64_t k = r.first_k; k < r.last_k; k += kTile * p.pair) {
      const Rows rows = rows_of(p, n, k);
      const auto count = static_cast<std::size_t>(std::min(kTile, (r.last_k - k) / p.pair));
      for (std::size_t i = 0; i < count; ++i) std::fill_n(to + rows[i], kTile, 0U);
    }
  }
}

// Packs a column of n's for all k's of the patch, which are its rows, `step` apart.
HWY_INLINE void pack_rounded_rows(const BFloat16* from, std::int64_t step, std::int64_t pairs,
                                  std::uint32_t* to, const Rows& rows) {
  const auto* in = reinterpret_cast<const std::uint16_t*>(from);
  for (std::int64_t i = 0; i < pairs; ++i, in += 2 * step) {
    put<true>(interleaved_bits(in, in + step), to + rows[static_cast<std::size_t>(i)]);
  }
}

void pack_rounded(const BlockedWeight& p, const PatchRange& r, const BFloat16* from,
                  std::int64_t step, std::uint32_t* to) {
  if (p.from_n < p.from_k) {
    for (std::int64_t n = r.first_n; n < r.last_n; n += kTile, from += kTile) {
      pack_rounded_rows(from, step, (r.last_k - r.first_k) / 2, to, rows_of(p, n, r.first_k));
    }
    return;
  }
  for (std::int64_t k = r.first_k; k < r.last_k; k += 2 * kTile, from += 2 * kTile) {
    const auto* const pairs = reinterpret_cast<const std::uint32_t*>(from);
    transpose_to<true>(pairs, step / 2, to, rows_of(p, r.first_n, k));
  }
}

template <bool kPaired>
void pack_tiles(const BlockedWeight& p, const PatchRange& r, const float* from, std::uint32_t* to) {
  for (std::int64_t n = r.first_n; n < r.last_n; n += kTile) {
    for (std::int64_t k = r.first_k; k < r.last_k; k += kTile * p.pair) {
      pack_tile<kPaired, true>(p, from + n * p.from_n + k * p.from_k, to, rows_of(p, n, k));
    }
  }
}

void pack_patch(const BlockedWeight& p, const PatchGrid& grid, const Patch& patch,
                std::uint32_t* to) {
  const PatchRange r = range_of(p, grid, patch);
  for (std::int64_t tap = r.first_tap; tap < r.last_tap; ++tap) {
    const std::int64_t h = tap / p.w;
    const std::int64_t w = tap - h * p.w;
    std::uint32_t* const out = to + h * p.to_h + w * p.to_w;
    const float* const from = patch.param + h * p.from_h + w * p.from_w;
    if (grid.is_rounded) {
      pack_rounded(p, r, patch.rounded, grid.columns, out);
    } else if (p.pair == 2) {
      pack_tiles<true>(p, r, from, out);
    } else {
      pack_tiles<false>(p, r, from, out);
    }
    if (r.last_n == p.n) pad(p, r, out);
  }
}

#else

void pack_patch(const BlockedWeight&, const PatchGrid&, const Patch&, std::uint32_t*) {}

#endif

}  // namespace
}  // namespace mezzo::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace mezzo::kernels::onednn {
namespace {

HWY_EXPORT(pack_patch);

}  // namespace

PatchGrid grid_of(const BlockedWeight& weight) {
  const bool rows_are_n = weight.from_n > weight.from_k;
  const std::int64_t rows = rows_are_n ? weight.n : weight.k;
  const std::int64_t inner = rows_are_n ? weight.k : weight.n;
  const std::int64_t step = rows_are_n ? weight.from_k : weight.from_n;
  const std::int64_t taps = weight.h * weight.w;
  PatchGrid grid{.row_elements = rows_are_n ? weight.from_n : weight.from_k};
  const auto taps_are = [&](std::int64_t apart) {
    return (weight.w == 1 || weight.from_w == apart) &&
           (weight.h == 1 || weight.from_h == apart * weight.w);
  };
  if (grid.row_elements != inner * taps) return {};
  const std::int64_t tile = weight_tile();
  if (step == 1 && taps_are(inner)) {
    // The columns are whole cache lines of what is read, of what is rounded, and of transposed
    // pairs. With 128 columns, long runs of writes hold up the reads. With 32 rows, there are more
    // streams than the hardware prefetcher follows. ResNet-50's update then takes 3 % and 20 %
    // longer (an Intel Xeon with AMX, two threads).
    constexpr std::int64_t kColumns = 64;
    grid.rows = tile;
    grid.columns = std::gcd(inner, kColumns);
    grid.is_rounded = weight.pair == 2;
  } else if (step == taps && taps_are(1)) {
    grid.rows = std::gcd(rows, 2 * tile);
    grid.columns = std::gcd(inner, 2 * tile) * taps;
  }
  return grid;
}

void pack_patch(const BlockedWeight& weight, const PatchGrid& grid, const Patch& patch, void* to) {
  HWY_DYNAMIC_DISPATCH(pack_patch)(weight, grid, patch, static_cast<std::uint32_t*>(to));
}

}  // namespace mezzo::kernels::onednn
#endif
