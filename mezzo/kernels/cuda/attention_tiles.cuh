// Tiles of attention: who computes which numbers, rows in shared memory, and what becomes of
// products of rows: scores, and what dropout drops.
//
// A thread block of four warps has 64 rows of one operand, 16 for each warp, and goes through the
// rows of the others, a tile in shared memory at a time. A tile of products has a row for each of a
// warp's rows, and a column for each row in shared memory. It is never written to global memory:
// its numbers are in the registers of the warp's threads, in parts of eight columns that are
// SumFragments. Number i of part p of a lane is in row lane_row() + i / 2 * 8, and in column
// p * 8 + lane_column() + i % 2.
#pragma once

#include "mezzo/kernels/cuda/attention.cuh"
#include "mezzo/kernels/cuda/tensor_core.cuh"

namespace mezzo::kernels::cuda {

inline constexpr int kWarpRows = 16;
inline constexpr int kTileRows = 64;
inline constexpr int kTileWarps = kTileRows / kWarpRows;
inline constexpr int kTileThreads = 32 * kTileWarps;
// Thread blocks that fit a multiprocessor's registers: one computes while another waits.
template <int kSize>
inline constexpr int kTileBlocks = kSize <= 64 ? 3 : 2;
inline constexpr int kStepTerms = 16;  // of a sum, per Tensor Core step

// Rows of a tile in shared memory, of which two buffers of two operands share 48 kB with what f32
// needs besides; kSize: elements of the longest row.
template <class T, int kSize>
inline constexpr int kTileColumns = 8192 / static_cast<int>(sizeof(T) * kSize);

__device__ inline int lane_row() { return threadIdx.x % 32 / 4; }
__device__ inline int lane_column() { return threadIdx.x % 4 * 2; }
__device__ inline int warp_row() { return threadIdx.x / 32 * kWarpRows; }

template <int kParts>
__device__ inline void clear(SumFragment (&sums)[kParts]) {
#pragma unroll
  for (int p = 0; p < kParts; ++p) {
#pragma unroll
    for (int i = 0; i < 4; ++i) sums[p][i] = 0;
  }
}

// The rows of a head that a thread block takes at a time.
struct HeadTile {
  std::int64_t sample, head;
  int first;

  // Tile `number` of all heads. kLastFirst: a head's last rows come first, as they take the
  // longest.
  template <bool kLastFirst>
  __device__ static HeadTile at(std::int64_t number, std::int64_t rows, std::int64_t heads) {
    const std::int64_t tiles = (rows + kTileRows - 1) / kTileRows;
    const std::int64_t tile = number % tiles;
    return {number / tiles / heads, number / tiles % heads,
            static_cast<int>((kLastFirst ? tiles - 1 - tile : tile) * kTileRows)};
  }
};

inline std::int64_t tiles_of(std::int64_t rows) { return ceil_div(rows, kTileRows); }

// A buffer for rows of a head, kColumns at a time.
template <class T, int kSize, int kColumns>
struct StagedRows {
  static constexpr int kPack = kPackOf<T>;
  // Rows are a pack longer than kSize, so that eight of them are in different banks.
  static constexpr int kRowPacks = kSize / kPack + 1;
  Pack<T, kPack> packs[kColumns * kRowPacks];

  __device__ const T* row(int i) const { return packs[i * kRowPacks].values; }

  // Queues the copies of the rows from `first` on, on all threads of the block. Rows from `end` on
  // and elements up to a whole step are zeros. `from`: row 0.
  __device__ void stage(const HeadRows<T>& rows, const T* from, int first, int end) {
    constexpr int kAcross = kSize / kPack;
    const int packs_used = (rows.size + kStepTerms - 1) / kStepTerms * kStepTerms / kPack;
    for (int i = threadIdx.x; i < kColumns * kAcross; i += kTileThreads) {
      const int row = i / kAcross;
      const int pack = i % kAcross;
      if (pack >= packs_used) continue;
      const int column = pack * kPack;
      const bool has_row = first + row < end;
      const T* at = from + (first + row) * rows.position + column;
      Pack<T, kPack>& to = packs[row * kRowPacks + pack];
      if (rows.is_packed) {
        const bool inside = has_row && column < rows.size;
        copy_beside(&to, inside ? at : rows.data, inside);
      } else {
        Pack<T, kPack> values;
#pragma unroll
        for (int k = 0; k < kPack; ++k) {
          values.values[k] = has_row && column + k < rows.size ? at[k] : T();
        }
        to = values;
      }
    }
  }
};

// Goes through `count` tiles: stage(n, buffer) queues the copies of tile n to one of two buffers
// while use(n - 1, other buffer) computes.
template <class Stage, class Use>
__device__ void for_tiles(int count, const Stage& stage, const Use& use) {
  if (count > 0) stage(0, 0);
  end_of_copies();
  for (int n = 0; n < count; ++n) {
    wait_for_copies<0>();
    __syncthreads();  // all threads see the copies, and are done with the other buffer
    if (n + 1 < count) stage(n + 1, (n + 1) % 2);
    end_of_copies();
    use(n, n % 2);
  }
}

// Stores a lane's sums of its upper or lower row, times `factor`, to elements of `row` from `first`
// on, of `size` that there are.
template <class T, int kParts>
__device__ void store_sums(const SumFragment (&sums)[kParts], int down, float factor, T* row,
                           int first, int size) {
#pragma unroll
  for (int p = 0; p < kParts; ++p) {
    const int column = first + p * 8 + lane_column();
    const float values[2] = {sums[p][down * 2] * factor, sums[p][down * 2 + 1] * factor};
    if (size % 2 == 0) {
      if (column < size) store(values, row + column);
    } else {
      if (column < size) row[column] = narrow<T>(values[0]);
      if (column + 1 < size) row[column + 1] = narrow<T>(values[1]);
    }
  }
}

// Combines the values of the four lanes that share a row; each gets the result.
template <class Combine>
__device__ float all_of_row(float value, const Combine& combine) {
  value = combine(value, __shfl_xor_sync(0xffffffffU, value, 1));
  return combine(value, __shfl_xor_sync(0xffffffffU, value, 2));
}

// Replaces products of queries and keys by scores. Rows are queries from `row` on and columns keys
// from `column` on, or, if kKeysDown, the other way round; these are the lane's first ones.
// `shows_all`: no key is hidden.
template <bool kKeysDown, int kParts>
__device__ void to_scores(const HeadScores& head, bool shows_all, int row, int column,
                          SumFragment (&products)[kParts]) {
#pragma unroll
  for (int p = 0; p < kParts; ++p) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int down = row + i / 2 * 8;
      const int across = column + p * 8 + i % 2;
      products[p][i] = shows_all ? head.scaled(products[p][i])
                                 : head.score(products[p][i], kKeysDown ? across : down,
                                              kKeysDown ? down : across);
    }
  }
}

// Combines bits of the lanes whose numbers differ in one bit.
__device__ inline std::uint32_t bits_of_both(std::uint32_t bits, int lanes) {
  return bits | __shfl_xor_sync(0xffffffffU, bits, lanes);
}

// Bit 4p + i is set if dropout drops number i of part p of kParts parts, which lie as in
// to_scores(). Random words come in blocks for four neighbouring keys, of which some lanes need
// all: each of these makes one block, and they exchange what it says. All lanes must call this.
template <bool kKeysDown, int kParts>
__device__ std::uint32_t dropped_in(const HeadScores& scores, int row, int column) {
  static_assert(kParts <= 8, "there are 32 bits");
  // Four lanes have the same columns of four rows, or two have the same two rows of four columns.
  const int mine = kKeysDown ? lane_row() % 4 : static_cast<int>(threadIdx.x % 2);
  std::uint32_t dropped = 0;
#pragma unroll
  for (int p = 0; p < kParts; ++p) {
    const int query = kKeysDown ? column + p * 8 + mine % 2 : row + mine * 8;
    const int key = kKeysDown ? row + mine / 2 * 8 : column + p * 8;
    std::uint32_t bits = scores.dropped_of(query, key / 4) << (4 * mine);
    bits = kKeysDown ? bits_of_both(bits_of_both(bits, 4), 8) : bits_of_both(bits, 1);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int bit = kKeysDown ? i * 4 + mine : i / 2 * 4 + mine * 2 + i % 2;
      dropped |= (bits >> bit & 1U) << (p * 4 + i);
    }
  }
  return dropped;
}

template <int kParts>
__device__ void clear_dropped(std::uint32_t dropped, SumFragment (&numbers)[kParts]) {
#pragma unroll
  for (int p = 0; p < kParts; ++p) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if ((dropped >> (p * 4 + i) & 1U) != 0) numbers[p][i] = 0;
    }
  }
}

}  // namespace mezzo::kernels::cuda
