// Means and variances of channels, computed in one pass over the values.
#pragma once

#include "mezzo/kernels/cuda/channels.cuh"

namespace mezzo::kernels::cuda {

// Count, mean and sum of squared distances from the mean, for some values. They are combined by the
// rule of Chan, Golub and LeVeque. A sum of squares minus the squared sum would leave nothing of a
// small variance around a large mean in f32.
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

// A thread's sums over its values, for N channels: their distances from a pivot, and the squares of
// these. That is three instructions per value. A running mean would take four and the reciprocal of
// each count, and round a large mean with each value.
//
// The result for n values, squares - sum^2 / n, cancels if the pivot is far from their mean. So the
// pivot is the mean of the first h values, at the start the first alone. These then contribute
// nothing to the sum, whose square is at most (n - h) * squares by the Cauchy-Schwarz inequality.
// At least h / n of squares is left, whatever the values are, and nothing negative. n / h is at
// most 17. So some four bits of 24 are lost if the first pixel is far off all others, and next to
// none otherwise.
template <int N>
class PivotSums {
 public:
  // Takes the first value as pivot; add() must still be called for it.
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

  // Moves the pivots to the means if there are many more values than at the last move. Call it
  // between rounds, when the values read no longer occupy registers.
  __device__ void follow() {
    if (count_ < next_) return;
    next_ = kGrowth * count_;
    move();
  }

  // Leaves the moments unchanged if nothing was added.
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

  // Products that are too large for f32 are finite inside fmaf(). So infinite squares stay
  // infinite, and do not become NaN while the sum itself is finite.
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

// The moments of the pixels of x that a thread block reads, in those of its first row of threads.
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
