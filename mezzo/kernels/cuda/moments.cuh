// Means and variances of channels, found as values come.
#pragma once

#include "mezzo/kernels/cuda/channels.cuh"

namespace mezzo::kernels::cuda {

// Count, mean and sum of squared distances from it, of some values. Combined by the rule of Chan,
// Golub and LeVeque: a sum of squares less the square of the sum would leave nothing of a small
// variance around a large mean in f32.
struct Moments {
  float count = 0;
  float mean = 0;
  float squares = 0;

  __device__ void add(const Moments& other) {
    if (other.count == 0) return;
    if (count == 0) {  // the square of a mean above 2^64 would be infinite, and 0 times it NaN
      *this = other;
      return;
    }
    const float total = count + other.count;
    const float distance = other.mean - mean;
    const float part = other.count / total;
    mean = fmaf(distance, part, mean);
    squares += fmaf(distance * distance, count * part, other.squares);
    count = total;
  }
};

// What a thread adds up of its values, of N channels: their distances from a pivot, and the squares
// of these. That is three instructions for a value. A mean that is kept up to date takes four and
// the reciprocal of each count, and if it is large, rounds it with each value.
//
// What n values come to, squares - sum^2 / n, cancels if the pivot lies far from their mean. So the
// pivot is the mean of the first h of them, at the start the first alone. These have no part in the
// sum then, whose square is at most (n - h) * squares, as Cauchy and Schwarz say: h / n of squares
// is left at least, whatever the values are, and nothing negative. With n / h no more than 17, some
// four bits of 24 are lost where the first pixel is far off all others, and next to none elsewhere.
template <int N>
class PivotSums {
 public:
  // Takes the first value as pivot. It is to be added as well.
  template <class T>
  __device__ void begin(const Pack<T, N>& first) {
#pragma unroll
    for (int k = 0; k < N; ++k) pivots_[k] = widen(first.values[k]);
  }

  template <class T>
  __device__ void add(const Pack<T, N>& pack) {
#pragma unroll
    for (int k = 0; k < N; ++k) {
      const float distance = widen(pack.values[k]) - pivots_[k];
      sums_[k] += distance;
      squares_[k] = fmaf(distance, distance, squares_[k]);
    }
    ++count_;
  }

  // Moves the pivots to the means if there are many more values than when they last were moved. To
  // be called between rounds, where what was read needs no registers any more.
  __device__ void follow() {
    if (count_ < next_) return;
    next_ = kGrowth * count_;
    move();
  }

  // Leaves the moments as they are where nothing was added.
  __device__ void finish(Moments (&moments)[N]) {
    if (count_ == 0) return;
    move();
#pragma unroll
    for (int k = 0; k < N; ++k) {
      moments[k] = {static_cast<float>(count_), pivots_[k], squares_[k]};
    }
  }

 private:
  static constexpr int kGrowth = 16;  // n / h, which whole rounds make up to 17

  // Products that are too large for f32 are finite inside of fmaf(): squares that are infinite stay
  // so, and do not become NaN while the sum itself is finite.
  __device__ void move() {
    const float share = 1.0F / static_cast<float>(count_);
#pragma unroll
    for (int k = 0; k < N; ++k) {
      const float way = sums_[k] * share;
      squares_[k] = fmaf(-way, sums_[k], squares_[k]);
      pivots_[k] += way;
      sums_[k] = 0;
    }
  }

  float pivots_[N] = {};
  float sums_[N] = {};
  float squares_[N] = {};
  int count_ = 0;
  int next_ = 0;
};

// Those of the pixels of x that a block reads, in the moments of its first row of threads.
template <int N, class T>
__device__ void add_up_pixels(const ChannelRange& range, const T* x, Moments (&moments)[N],
                              Moments (&shared)[N][kThreads]) {
  constexpr int kAhead = pixels_ahead(1);
  using Packs = Pack<T, N>[kAhead];
  PivotSums<N> sums;
  const auto begin = [&](const Packs& packs, int count) {
    sums.begin(packs[0]);
#pragma unroll
    for (int i = 0; i < kAhead; ++i) {
      if (i < count) sums.add(packs[i]);
    }
    sums.follow();
  };
  range.for_rounds<kAhead, N>(x, begin, [&](const Packs& packs) {
#pragma unroll
    for (int i = 0; i < kAhead; ++i) sums.add(packs[i]);
    sums.follow();
  });
  sums.finish(moments);
  add_up_columns(moments, shared, [](Moments& sum, const Moments& other) { sum.add(other); });
}

}  // namespace mezzo::kernels::cuda
