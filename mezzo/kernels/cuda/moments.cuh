// Means and variances of channels, found as values come.
#pragma once

#include "mezzo/kernels/cuda/launch.cuh"

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

}  // namespace mezzo::kernels::cuda
