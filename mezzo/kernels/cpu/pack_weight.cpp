#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "mezzo/kernels/cpu/pack_weight.cpp"
#include "mezzo/kernels/cpu/pack_weight.h"

#include <algorithm>
#include <array>

#include <hwy/foreach_target.h>

#include "mezzo/core/cpu.h"
#include "mezzo/core/parallel.h"
#include "mezzo/kernels/cpu/simd-inl.h"
#include "mezzo/ops/dispatch.h"

HWY_BEFORE_NAMESPACE();
namespace mezzo::HWY_NAMESPACE {
namespace {

using kernels::onednn::BlockedWeight;

// A tile has as many rows, k's or pairs of k's, as a vector has lanes, which are n's.
inline constexpr std::int64_t kTile = kMaxLanes;

inline constexpr std::int64_t kLine = 16;  // numbers of a cache line

#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX2

// The next numbers `step` apart.
HWY_INLINE F32Vec load_apart(const float* from, std::int64_t step) {
  if (step == 1) return load(from);
  const hn::RebindToSigned<F32> d;
  const auto places = hn::Mul(hn::Iota(d, 0), hn::Set(d, static_cast<std::int32_t>(step)));
  return hn::GatherIndex(F32(), from, places);
}

// bf16 numbers of a and b by turns, those of a in the lower halves.
HWY_INLINE hn::Vec<U32> interleaved(F32Vec a, F32Vec b) {
  const U32 d;
  return hn::Or(hn::PromoteTo(d, round_to_bf16(a)),
                hn::ShiftLeft<16>(hn::PromoteTo(d, round_to_bf16(b))));
}

// bf16 numbers of a and then of b, in pairs.
HWY_INLINE hn::Vec<U32> paired(F32Vec a, F32Vec b) {
  const hn::Repartition<std::uint16_t, F32> d;
  return hn::BitCast(U32(), hn::Combine(d, round_to_bf16(b), round_to_bf16(a)));
}

// Where the rows of a tile begin in the blocks.
using Rows = std::array<std::int64_t, kTile>;

// to[rows[c] + r] = from[r * step + c] for a tile.
HWY_INLINE void transpose_to(const std::uint32_t* from, std::int64_t step, std::uint32_t* to,
                             const Rows& rows) {
  const hn::CappedTag<std::uint32_t, 4> d;
  const hn::CappedTag<std::uint64_t, 2> pairs;
  const auto lower = [&](auto a, auto b) HWY_ATTR {
    return hn::BitCast(d, hn::InterleaveLower(pairs, hn::BitCast(pairs, a), hn::BitCast(pairs, b)));
  };
  const auto upper = [&](auto a, auto b) HWY_ATTR {
    return hn::BitCast(d, hn::InterleaveUpper(pairs, hn::BitCast(pairs, a), hn::BitCast(pairs, b)));
  };
  for (std::size_t c = 0; c < rows.size(); c += 4) {
    for (std::int64_t r = 0; r < kTile; r += 4) {
      const std::uint32_t* const in = from + r * step + c;
      const auto r0 = hn::LoadU(d, in);
      const auto r1 = hn::LoadU(d, in + step);
      const auto r2 = hn::LoadU(d, in + 2 * step);
      const auto r3 = hn::LoadU(d, in + 3 * step);
      const auto a = hn::InterleaveLower(d, r0, r1);
      const auto b = hn::InterleaveUpper(d, r0, r1);
      const auto e = hn::InterleaveLower(d, r2, r3);
      const auto f = hn::InterleaveUpper(d, r2, r3);
      hn::StoreU(lower(a, e), d, to + rows[c] + r);
      hn::StoreU(upper(a, e), d, to + rows[c + 1] + r);
      hn::StoreU(lower(b, f), d, to + rows[c + 2] + r);
      hn::StoreU(upper(b, f), d, to + rows[c + 3] + r);
    }
  }
}

// One tile. Vectors are read along the axis whose numbers lie closer together; along k, they are
// transposed.
template <bool kPaired>
void pack_tile(const BlockedWeight& p, const float* from, std::uint32_t* to, const Rows& rows) {
  if (p.from_n < p.from_k) {
    for (const std::int64_t row : rows) {
      const auto first = load_apart(from, p.from_n);
      from += p.from_k;
      if constexpr (kPaired) {
        hn::StoreU(interleaved(first, load_apart(from, p.from_n)), U32(), to + row);
        from += p.from_k;
      } else {
        hn::StoreU(hn::BitCast(U32(), first), U32(), to + row);
      }
    }
    return;
  }
  alignas(64) std::uint32_t square[kTile * kTile];
  for (std::int64_t i = 0; i < kTile; ++i, from += p.from_n) {
    // The next n's: at the end of a row, the memory system does not see them coming.
    for (std::int64_t k = 0; k < kTile * (kPaired ? 2 : 1); k += kLine) {
      __builtin_prefetch(from + kTile * p.from_n + k * p.from_k);
    }
    const auto first = load_apart(from, p.from_k);
    if constexpr (kPaired) {
      const auto second = load_apart(from + kTile * p.from_k, p.from_k);
      hn::Store(paired(first, second), U32(), square + i * kTile);
    } else {
      hn::Store(hn::BitCast(U32(), first), U32(), square + i * kTile);
    }
  }
  transpose_to(square, kTile, to, rows);
}

// The rows of the tile that begins with those.
Rows rows_of(const BlockedWeight& p, std::int64_t n, std::int64_t k) {
  Rows rows;
  for (std::int64_t& row : rows) {
    row = n / p.n_block * p.to_n + n % p.n_block + k / p.k_block * p.to_k +
          k % p.k_block / p.pair * p.n_block;
    k += p.pair;
  }
  return rows;
}

// The tiles of all taps for n's and k's from those on.
template <bool kPaired>
void pack_taps(const BlockedWeight& p, const float* from, std::uint32_t* to, std::int64_t n,
               std::int64_t k) {
  const Rows rows = rows_of(p, n, k);
  const bool is_padding = n >= p.n;
  from += n * p.from_n + k * p.from_k;
  for (std::int64_t h = 0; h < p.h; ++h) {
    for (std::int64_t w = 0; w < p.w; ++w) {
      std::uint32_t* const tile = to + h * p.to_h + w * p.to_w;
      if (is_padding) {
        for (const std::int64_t row : rows) std::fill_n(tile + row, kTile, 0U);
      } else {
        pack_tile<kPaired>(p, from + h * p.from_h + w * p.from_w, tile, rows);
      }
    }
  }
}

void pack(const BlockedWeight& p, const float* from, std::uint32_t* to) {
  constexpr std::int64_t kGrainNumbers = 1 << 14;
  const std::int64_t depth = kTile * p.pair;
  const std::int64_t tiles_n = p.padded_n / kTile;
  const std::int64_t tiles_k = p.k / depth;
  const std::int64_t numbers = kTile * depth * p.h * p.w;
  // One tile after the other along the axis whose numbers lie closer together: the weight is read
  // in streams.
  const bool along_n = p.from_n < p.from_k;
  const std::int64_t inner = along_n ? tiles_n : tiles_k;
  const auto body = [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t n = (along_n ? i % inner : i / inner) * kTile;
      const std::int64_t k = (along_n ? i / inner : i % inner) * depth;
      if (p.pair == 2) {
        pack_taps<true>(p, from, to, n, k);
      } else {
        pack_taps<false>(p, from, to, n, k);
      }
    }
  };
  parallel_for(tiles_n * tiles_k, std::max<std::int64_t>(1, kGrainNumbers / numbers), body);
}

// The weight's own rows take the place of a tile's.
void unpack(const BlockedWeight& p, const std::uint32_t* from, std::uint32_t* to) {
  parallel_for(p.n / kTile, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t n = begin * kTile; n < end * kTile; n += kTile) {
      Rows rows;
      for (std::int64_t i = 0; i < kTile; ++i)
        rows[static_cast<std::size_t>(i)] = (n + i) * p.from_n;
      for (std::int64_t k = 0; k < p.k; k += kTile) {
        transpose_to(from + rows_of(p, n, k)[0], p.n_block, to + k, rows);
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

// The inner blocks of a layout: which axis, and how many of its numbers.
struct InnerBlocks {
  int count = 0;
  const dnnl_dim_t* axis = nullptr;
  const dnnl_dim_t* size = nullptr;

  bool is_pair(int i) const { return size[i] == 2; }
};

// Fills in the blocks and gives the axis of n; -1 for other kinds of layout: [n] and [k][n] of f32,
// [n][2 k] and [k][n][2 k] of bf16.
int read_blocks(const InnerBlocks& b, bool is_bf16, BlockedWeight& weight) {
  const int innermost = b.count - (is_bf16 ? 2 : 1);  // the block of n's
  if (innermost < 0 || innermost > 1) return -1;
  const auto n_axis = static_cast<int>(b.axis[innermost]);
  if (n_axis > 1) return -1;
  weight.n_block = b.size[innermost];
  if (is_bf16) {
    if (!b.is_pair(innermost + 1) || b.axis[innermost + 1] != 1 - n_axis) return -1;
    weight.pair = weight.k_block = 2;
  }
  if (innermost == 1) {
    if (b.axis[0] != 1 - n_axis) return -1;
    weight.k_block *= b.size[0];
  }
  return n_axis;
}

bool fits_tiles(const BlockedWeight& weight) {
  const std::int64_t tile = HWY_DYNAMIC_DISPATCH(tile)();
  return weight.n % tile == 0 && weight.n_block % tile == 0 && weight.k % (tile * weight.pair) == 0;
}

}  // namespace

std::optional<BlockedWeight> blocked_weight(const Shape& dims, const Shape& strides,
                                            const Desc& wanted) {
  const dnnl_memory_desc_t& md = wanted.data;
  const dnnl_blocking_desc_t& blocks = md.format_desc.blocking;
  const bool is_bf16 = md.data_type == dnnl_bf16;
  if (dims.rank() != 4 || md.format_kind != dnnl_blocked || md.extra.flags != 0 ||
      md.offset0 != 0 || !(is_bf16 || md.data_type == dnnl_f32) || !cpu_features().avx2 ||
      is_kernel_disabled("cpu_pack")) {
    return {};
  }
  BlockedWeight weight;
  const int axis =
      read_blocks({blocks.inner_nblks, blocks.inner_idxs, blocks.inner_blks}, is_bf16, weight);
  if (axis < 0) return {};
  const auto n = static_cast<std::size_t>(axis);
  const std::size_t k = 1 - n;
  const std::int64_t element = is_bf16 ? 2 : 1;  // numbers of an element of 32 bits
  weight.n = dims[n];
  weight.k = dims[k];
  weight.h = dims[2];
  weight.w = dims[3];
  weight.padded_n = md.padded_dims[n];
  weight.from_n = strides[n];
  weight.from_k = strides[k];
  weight.from_h = strides[2];
  weight.from_w = strides[3];
  weight.to_n = blocks.strides[n] / element;
  weight.to_k = blocks.strides[k] / element;
  weight.to_h = blocks.strides[2] / element;
  weight.to_w = blocks.strides[3] / element;
  if (md.padded_dims[k] != dims[k] || !fits_tiles(weight)) return {};
  return weight;
}

void pack_weight(const BlockedWeight& weight, const float* from, void* to) {
  HWY_DYNAMIC_DISPATCH(pack)(weight, from, static_cast<std::uint32_t*>(to));
}

bool can_unpack(const BlockedWeight& weight) {
  const std::int64_t tile = HWY_DYNAMIC_DISPATCH(tile)();
  return weight.pair == 1 && weight.k_block % tile == 0 && weight.from_k == 1 &&
         weight.h * weight.w == 1;
}

void unpack_weight(const BlockedWeight& weight, const void* from, float* to) {
  HWY_DYNAMIC_DISPATCH(unpack)
  (weight, static_cast<const std::uint32_t*>(from), reinterpret_cast<std::uint32_t*>(to));
}

}  // namespace mezzo::kernels::onednn
#endif
