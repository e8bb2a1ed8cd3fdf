// What a call of attention computes: sizes, and where the operands are.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

#include "mezzo/kernels/kernel.h"
#include "mezzo/ops/attention_attrs.h"

namespace mezzo::kernels::attention {

// Queries and keys are divided into tiles of so many. A tile of scores has a column per query and a
// row per key; with its operands it fits in the second-level cache, and mostly in the first.
inline constexpr std::int64_t kTileQueries = 64;
inline constexpr std::int64_t kTileKeys = 64;
// Numbers from one row of a tile to the next. With 64, all rows would lie in a quarter of a cache's
// sets.
inline constexpr std::int64_t kTilePitch = kTileQueries + 16;

// A tensor [b, positions, heads, n] whose rows of n are contiguous.
struct Rows {
  Tensor tensor;            // keeps a copy alive where the tensor's own rows have gaps
  std::int64_t sample = 0;  // steps, in elements
  std::int64_t position = 0;
  std::int64_t head = 0;

  Rows() = default;
  explicit Rows(const Tensor& x);

  template <class T>
  const T* at(std::int64_t b, std::int64_t i, std::int64_t h) const {
    return static_cast<const T*>(tensor.address()) + b * sample + i * position + h * head;
  }
};

// A mask [b|1, h|1, t|1, s|1]; steps along axes of size 1 are 0.
struct Mask {
  const Tensor* tensor = nullptr;  // null: no mask
  std::int64_t sample = 0;
  std::int64_t head = 0;
  std::int64_t query = 0;
  std::int64_t key = 0;

  Mask() = default;
  explicit Mask(const Tensor& mask);

  // What is added to the score of a query for a key: 0 or -infinity for a mask of booleans.
  float at(std::int64_t offset) const {
    if (is_bool) {
      const bool open = static_cast<const std::uint8_t*>(data)[offset] != 0;
      return open ? 0.0F : -std::numeric_limits<float>::infinity();
    }
    return static_cast<const float*>(data)[offset];
  }

  const void* data = nullptr;
  bool is_bool = false;
};

struct Problem {
  AttentionSizes sizes;
  AttentionAttrs attrs;
  RandomPosition place;  // of the first word of dropout
  Rows q;
  Rows k;
  Rows v;
  Mask mask;

  // The inputs q, k, v and mask have the numbers from `first` on.
  Problem(const KernelArgs& args, std::size_t first, std::size_t start);

  std::int64_t query_tiles() const { return ceil_div(sizes.queries, kTileQueries); }
  std::int64_t key_tiles() const { return ceil_div(sizes.keys, kTileKeys); }
  // The number of keys that queries before `end` see: all beyond are hidden by `causal`.
  std::int64_t seen_before(std::int64_t end) const { return sizes.visible(end - 1, attrs.causal); }
  // The first query that sees key j.
  std::int64_t first_seeing(std::int64_t j) const {
    return attrs.causal ? std::max<std::int64_t>(0, j - (sizes.keys - sizes.queries)) : 0;
  }
};

// `supports` of these kernels: the operands are f32, bf16 or f16, the mask bool or f32.
Support supports_vectors(const KernelArgs& args);
// The same for bf16 alone, on a CPU whose dot product of bf16 is faster than f32.
Support supports_dots(const KernelArgs& args);
// The same for bf16 alone, on a CPU with the tile unit.
Support supports_tiles(const KernelArgs& args);

}  // namespace mezzo::kernels::attention
