// Tiles of probabilities, or of gradients of scores, rounded to bf16 as operands of products.
// Included once per instruction set, like simd-inl.h.
#if defined(MEZZO_KERNELS_CPU_ATTENTION_ROUNDED_TILE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MEZZO_KERNELS_CPU_ATTENTION_ROUNDED_TILE_INL_H_
#undef MEZZO_KERNELS_CPU_ATTENTION_ROUNDED_TILE_INL_H_
#else
#define MEZZO_KERNELS_CPU_ATTENTION_ROUNDED_TILE_INL_H_
#endif

#include "mezzo/kernels/cpu/attention/scores-inl.h"

HWY_BEFORE_NAMESPACE();
namespace mezzo::HWY_NAMESPACE::attention_tiles {

// Numbers of [kTileKeys / 2][kTilePitch] pairs, and of [kTileKeys][kTilePitch] elements of bf16.
inline constexpr std::int64_t kRoundedTile = kTileKeys / 2 * kTilePitch;

// Rounds the computed part of a tile [kTileKeys][kTilePitch] to pairs of neighbouring keys, a
// second operand whose terms are keys.
template <class Products>
void pair_keys(const ScoreTile& tile, const float* from, float* pairs) {
  for (std::int64_t v = 0; v < tile.vectors(); ++v) {
    const std::int64_t rows = tile.rows(v);
    const float* at = from + v * lanes();
    float* to = pairs + v * lanes();
    for (std::int64_t j = 0; j < rows; j += 2, at += 2 * kTilePitch, to += kTilePitch) {
      pair_up(at, j + 1 < rows ? at + kTilePitch : nullptr, lanes(), to);
    }
    const std::int64_t count = ceil_div(rows, std::int64_t{2});
    for (std::int64_t j = count; j < round_up(count, Products::kTermStep); ++j, to += kTilePitch) {
      store(hn::Zero(F32()), to);
    }
  }
}

// Rounds the computed part of a tile row by row, a first operand whose terms are queries. Columns
// beyond the last query are 0, and so are rows beyond the last key where products read them: sums
// of those rows may be gradients of keys that other queries see.
template <class Products>
void round_rows(const ScoreTile& tile, const float* from, BFloat16* to) {
  for (std::int64_t v = 0; v < tile.vectors(); ++v) {
    const std::int64_t queries = tile.place().queries - v * lanes();
    const auto part =
        hn::FirstN(F32(), static_cast<std::size_t>(std::clamp<std::int64_t>(queries, 0, lanes())));
    const std::int64_t rows = tile.rows(v);
    std::int64_t at = v * lanes();
    for (std::int64_t j = 0; j < rows; ++j, at += kTilePitch) {
      store(hn::IfThenElseZero(part, load(from + at)), to + at);
    }
    for (std::int64_t j = rows; j < round_up(rows, Products::kRowStep); ++j, at += kTilePitch) {
      store(hn::Zero(F32()), to + at);
    }
  }
}

}  // namespace mezzo::HWY_NAMESPACE::attention_tiles
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
