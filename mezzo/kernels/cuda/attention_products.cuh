// Products of tiles of attention, by a warp's threads. 16-bit operands are multiplied by Tensor
// Cores; f32 by multiply-adds of f32, since TF32 would round the factors.
#pragma once

#include "mezzo/kernels/cuda/attention_tiles.cuh"

namespace mezzo::kernels::cuda {

template <class T>
inline constexpr bool kOnTensorCores = !std::is_same_v<T, float>;

// A lane's two rows of the 16 of its warp, where they are in global memory.
template <class T>
class WarpRows {
 public:
  // `from`: row 0 of a head; `first`: the warp's first row. Rows from `end` on are zeros.
  __device__ WarpRows(const HeadRows<T>& rows, const T* from, int first, int end)
      : size_(rows.size), is_packed_(rows.is_packed) {
#pragma unroll
    for (int down = 0; down < 2; ++down) {
      const int row = first + lane_row() + down * 8;
      rows_[down] = row < end ? from + row * rows.position : nullptr;
    }
  }

  __device__ int size() const { return size_; }
  // N elements of a row, a divisor of a pack, from a multiple of N on.
  template <int N>
  __device__ Pack<T, N> get(int down, int column) const {
    const T* row = rows_[down];
    Pack<T, N> values;
    if (is_packed_ && row != nullptr && column < size_) {
      return read_stored<N>(row + column);
    }
#pragma unroll
    for (int k = 0; k < N; ++k) {
      values.values[k] = row != nullptr && column + k < size_ ? row[column + k] : T();
    }
    return values;
  }

 private:
  const T* rows_[2];
  int size_;
  bool is_packed_;
};

// The first operand of products: a warp's rows. kKeeps: they stay in registers; otherwise they are
// read again for each tile, from the first-level cache.
template <class T, int kSize, bool kKeeps>
class LeftOperand {
 public:
  __device__ explicit LeftOperand(const WarpRows<T>& rows) : rows_(rows) {
    if constexpr (kKept) {
#pragma unroll
      for (int step = 0; step < kSize / kStepTerms; ++step) read(step, parts_[step]);
    }
  }

  // sums = products of the warp's rows and the rows of the tile.
  template <class Tile, int kParts>
  __device__ void multiply(const Tile& tile, SumFragment (&sums)[kParts]) const {
    clear(sums);
    if constexpr (kOnTensorCores<T>) {
#pragma unroll
      for (int step = 0; step < kSize / kStepTerms; ++step) {
        if (step * kStepTerms < rows_.size()) add_step(tile, step, sums);
      }
    } else {
#pragma unroll 2
      for (int term = 0; term < rows_.size(); term += 4) add_terms(tile, term, sums);
    }
  }

 private:
  static constexpr bool kKept = kKeeps && kOnTensorCores<T>;

  // The fragment of 16 columns.
  __device__ void read(int step, LeftFragment& to) const {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int column = step * kStepTerms + lane_column() + i / 2 * 8;
      const Pack<T, 2> pair = rows_.template get<2>(i % 2, column);
      to[i] = pair.values[0].bits | static_cast<std::uint32_t>(pair.values[1].bits) << 16;
    }
  }

  template <class Tile, int kParts>
  __device__ void add_step(const Tile& tile, int step, SumFragment (&sums)[kParts]) const {
    LeftFragment a;
    if constexpr (kKept) {
#pragma unroll
      for (int i = 0; i < 4; ++i) a[i] = parts_[step][i];
    } else {
      read(step, a);
    }
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int p = 0; p < kParts; p += 2) {
      LeftFragment b;  // of two parts
      load_matrices(
          b, tile.row((p + lane / 16) * 8 + lane % 8) + step * kStepTerms + lane / 8 % 2 * 8);
      const RightFragment first{b[0], b[1]};
      const RightFragment second{b[2], b[3]};
      multiply_add(sums[p], a, first, T());
      multiply_add(sums[p + 1], a, second, T());
    }
  }

  template <class Tile, int kParts>
  __device__ void add_terms(const Tile& tile, int term, SumFragment (&sums)[kParts]) const {
    const Pack<T, 4> upper = rows_.template get<4>(0, term);
    const Pack<T, 4> lower = rows_.template get<4>(1, term);
#pragma unroll
    for (int p = 0; p < kParts; ++p) {
#pragma unroll
      for (int c = 0; c < 2; ++c) {
        const Pack<T, 4> b = read_stored<4>(tile.row(p * 8 + lane_column() + c) + term);
#pragma unroll
        for (int k = 0; k < 4; ++k) {
          sums[p][c] = fmaf(upper.values[k], b.values[k], sums[p][c]);
          sums[p][2 + c] = fmaf(lower.values[k], b.values[k], sums[p][2 + c]);
        }
      }
    }
  }

  WarpRows<T> rows_;
  LeftFragment parts_[kKept ? kSize / kStepTerms : 1];
};

// add_rows() in f32: the lanes of a warp exchange their numbers through shared memory, since each
// of them needs all columns of its rows.
template <class Tile, int kIn, int kParts>
__device__ void add_f32_rows(const SumFragment (&numbers)[kIn], const Tile& tile, int first,
                             int size, SumFragment (&sums)[kParts]) {
  constexpr int kRowPacks = kIn * 2 + 1;
  __shared__ Pack<float, 4> shared[kTileRows * kRowPacks];
  Pack<float, 4>* const upper_row = shared + (warp_row() + lane_row()) * kRowPacks;
  Pack<float, 4>* const lower_row = upper_row + 8 * kRowPacks;
  __syncwarp();  // the numbers of an earlier call have been read
#pragma unroll
  for (int p = 0; p < kIn; ++p) {
    const int at = p * 8 + lane_column();
    *reinterpret_cast<Pack<float, 2>*>(upper_row->values + at) = {numbers[p][0], numbers[p][1]};
    *reinterpret_cast<Pack<float, 2>*>(lower_row->values + at) = {numbers[p][2], numbers[p][3]};
  }
  __syncwarp();
  for (int column = 0; column < kIn * 8; column += 4) {
    const Pack<float, 4> upper = upper_row[column / 4];
    const Pack<float, 4> lower = lower_row[column / 4];
#pragma unroll
    for (int p = 0; p < kParts; ++p) {
      if (first + p * 8 >= size) continue;
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        const auto b = read_stored<2>(tile.row(column + k) + first + p * 8 + lane_column());
#pragma unroll
        for (int c = 0; c < 2; ++c) {
          sums[p][c] = fmaf(upper.values[k], b.values[c], sums[p][c]);
          sums[p][2 + c] = fmaf(lower.values[k], b.values[c], sums[p][2 + c]);
        }
      }
    }
  }
}

// Adds the products of a tile's numbers and the rows in shared memory, elements from `first` on:
// sums[p][i] is of element first + p * 8 + lane_column() + i % 2. Parts from element `size` on are
// left out. The numbers, probabilities or gradients of scores, are rounded to T for Tensor Cores:
// with f32 factors these products would take as long as those of f32 operands.
template <class T, int kSize, int kColumns, int kParts>
__device__ void add_rows(const SumFragment (&numbers)[kColumns / 8],
                         const StagedRows<T, kSize, kColumns>& tile, int first, int size,
                         SumFragment (&sums)[kParts]) {
  if constexpr (kOnTensorCores<T>) {
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int step = 0; step < kColumns / kStepTerms; ++step) {
      LeftFragment a;
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const float* pair = numbers[step * 2 + i / 2] + i % 2 * 2;
        a[i] = narrow<T>(pair[0]).bits | static_cast<std::uint32_t>(narrow<T>(pair[1]).bits) << 16;
      }
#pragma unroll
      for (int p = 0; p < kParts; p += 2) {
        if (first + p * 8 >= size) continue;
        LeftFragment b;  // of two parts
        load_transposed(b, tile.row(step * kStepTerms + lane % 16) + first + (p + lane / 16) * 8);
        const RightFragment left{b[0], b[1]};
        const RightFragment right{b[2], b[3]};
        multiply_add(sums[p], a, left, T());
        multiply_add(sums[p + 1], a, right, T());
      }
    }
  } else {
    add_f32_rows(numbers, tile, first, size, sums);
  }
}

}  // namespace mezzo::kernels::cuda
