#include "mezzo/kernels/cpu/conv/winograd/winograd_plan.h"

#include "mezzo/core/math.h"
#include "mezzo/kernels/cpu/loops/cache_sizes.h"

namespace mezzo::kernels::winograd {
namespace {

// Bytes of a tile's transformed values before and after the products.
std::int64_t tile_bytes(std::int64_t in, std::int64_t out) {
  return kPoints * (in + out) * static_cast<std::int64_t>(sizeof(float));
}

// The size of parts into which `count` is cut: as few equal parts of at most `most` as possible,
// and a multiple of `parts` of them.
std::int64_t equal_parts(std::int64_t count, std::int64_t most, std::int64_t parts) {
  return ceil_div(count, ceil_div(ceil_div(count, most), parts) * parts);
}

// The number of tiles whose values take as many bytes as the weight, or its sums, which is read or
// written once for them. More tiles leave the caches; fewer read the weight too often.
std::int64_t balanced_tiles(std::int64_t in, std::int64_t out) { return in * out / (in + out); }

// The most bytes in memory at a time of each kind. Transformed, a large weight and the sums of its
// gradient take four times the weight's bytes, and images more than twice theirs. They are needed
// at the beginning of a backward pass, when memory is scarcest.
constexpr std::int64_t kMostBytes = 5 << 20;

std::size_t group_of(const Tile& tile) {
  const bool fewer_columns = tile.columns < kResults;
  if (tile.rows < kResults) return fewer_columns ? 2 : 3;
  return fewer_columns ? 1 : 0;
}

}  // namespace

TileGroups::TileGroups(const Tiling& tiling, std::int64_t begin, std::int64_t end) {
  std::vector<Tile> in_order;
  in_order.reserve(static_cast<std::size_t>(end - begin));
  for (std::int64_t i = begin; i < end; ++i) in_order.push_back(tiling.tile(i));
  tiles_.reserve(in_order.size());
  for (std::size_t group = 0; group < ends_.size(); ++group) {
    for (const Tile& tile : in_order) {
      if (group_of(tile) == group) tiles_.push_back(tile);
    }
    ends_[group] = static_cast<std::int64_t>(tiles_.size());
  }
}

bool Convolution::has_large_weight(int threads) const {
  return tiling.tiles() <= 2 * balanced_tiles(in, out) && weight().blocks >= threads;
}

std::int64_t Convolution::outputs_at_a_time() const {
  const std::int64_t bytes = tile_bytes(in, 0) * kColumns;
  return std::max<std::int64_t>(1, kMostBytes / bytes) * kColumns;
}

std::int64_t Convolution::tiles_in_memory() const {
  return equal_parts(tiling.tiles(), std::max<std::int64_t>(1, kMostBytes / tile_bytes(in, 0)), 1);
}

std::int64_t Convolution::tiles_at_a_time(int threads) const {
  constexpr std::int64_t kFewest = 28;  // rows of products come in groups of up to 14
  return equal_parts(tiling.tiles(), std::max(kFewest, balanced_tiles(in, out)), threads);
}

std::int64_t WeightGradient::parts() const {
  constexpr std::int64_t kMostSumBytes = kCachesWithVectors.second * 5 / 8;
  constexpr std::int64_t kFewestTiles = 128;  // so that reading and writing sums costs little
  constexpr std::int64_t kMost = 8;
  const std::int64_t sum_bytes = kPoints * in * out * static_cast<std::int64_t>(sizeof(float));
  if (sum_bytes > kMostSumBytes) return 1;
  return std::clamp<std::int64_t>(tiling.tiles() / kFewestTiles, 1, kMost);
}

bool WeightGradient::has_large_sums() const {
  constexpr std::int64_t kManyOutputs = 128;
  return out >= kManyOutputs && tiling.tiles() <= balanced_tiles(in, out);
}

std::int64_t WeightGradient::tiles_at_a_time() const {
  const std::int64_t bytes = tile_bytes(in, out);
  const std::int64_t count = parts();
  if (count > 1) {
    constexpr std::int64_t kBesideSums = kCachesWithVectors.second * 3 / 4;
    return equal_parts(ceil_div(tiling.tiles(), count), kBesideSums / bytes, 1);
  }
  // All threads meet at two barriers per group, so a group must be at least this large.
  constexpr std::int64_t kFewestBytes = 1 << 20;
  return equal_parts(tiling.tiles(),
                     std::clamp(balanced_tiles(in, out), kFewestBytes / bytes + 1,
                                std::max<std::int64_t>(kMostBytes / bytes, 1)),
                     1);
}

std::int64_t WeightGradient::panels_at_a_time() const {
  return std::max<std::int64_t>(1, kMostBytes / (tile_bytes(in, 0) * kPanel));
}

}  // namespace mezzo::kernels::winograd
