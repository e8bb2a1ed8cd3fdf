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

  // `share`: 1 / the count with x, which the caller has for all its channels, and sets at the end.
  __device__ void add(float x, float share) {
    const float distance = x - mean;
    mean = fmaf(distance, share, mean);
    squares = fmaf(distance, x - mean, squares);
  }
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

// Those of the pixels of x that a block reads, in the moments of its first row of threads.
template <int N, class T>
__device__ void add_up_pixels(const ChannelRange& range, const T* x, Moments (&moments)[N],
                              Moments (&shared)[N][kThreads]) {
  float count = 0;
  range.for_pixels<pixels_ahead(1)>(
      [&](const Place& place) { return read_stored<N>(x + place.at); },
      [&](const Pack<T, N>& pack, const Place&) {
        count += 1;
        const float share = 1.0F / count;
#pragma unroll
        for (int k = 0; k < N; ++k) moments[k].add(widen(pack.values[k]), share);
      });
#pragma unroll
  for (int k = 0; k < N; ++k) moments[k].count = count;
  add_up_columns(moments, shared, [](Moments& sum, const Moments& other) { sum.add(other); });
}

}  // namespace mezzo::kernels::cuda
