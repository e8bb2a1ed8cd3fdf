// How far the elements of two tensors are apart.
#pragma once

#include <cstdint>

#include "mezzo/core/tensor.h"

namespace mezzo::numbers {

// The difference of a tensor b from a tensor a of the same shape. Elements that are NaN in both, or
// the same infinity in both, do not differ. Those that are finite in only one of them, or opposite
// infinities, are counted in `not_finite` and left out of the sums. Sums are f64, in an order that
// depends on nothing but the shape.
struct TensorDifference {
  std::int64_t count = 0;      // of elements
  std::int64_t differing = 0;  // by their bits if both have the same dtype and scale, else by value
  std::int64_t not_finite = 0;
  double norm = 0;           // the 2-norm of a
  double distance = 0;       // the 2-norm of b - a
  double largest = 0;        // the largest |b - a|
  double largest_value = 0;  // the largest |a|
  // The first differing element, and that of `largest`, as places in row-major order; -1 if none
  // differs. Elements are gone through in the order in which a has them in memory.
  std::int64_t first_at = -1;
  std::int64_t largest_at = -1;

  bool is_equal() const { return differing == 0; }
  // distance / norm: 0 for equal tensors, infinity for a difference from zeros and where
  // not_finite.
  double relative() const;
  // `largest` in units of the root mean square of a.
  double largest_to_rms() const;
  // `largest` in units of the largest |a|.
  double largest_to_largest() const;
};

// Both on the host, of the same shape, of any dtypes and layouts. Elements of a are multiplied by
// `factor_a` first, and those of b by `factor_b`.
TensorDifference difference_of(const Tensor& a, const Tensor& b, double factor_a = 1,
                               double factor_b = 1);

// The index of a place in row-major order: [2, 0, 5].
Shape index_of(std::int64_t place, const Shape& shape);

}  // namespace mezzo::numbers
