// A convolution's kernel as a matrix between all pixels of an image and all pixels of its result.
#pragma once

#include <cstdint>
#include <vector>

#include "mezzo/kernels/cpu/conv/problem.h"
#include "mezzo/kernels/cpu/loops/layout.h"

namespace mezzo::kernels::conv {

// The matrix [result pixels * o, pixels * c] holds, for each pair of pixels, the [o, c] numbers of
// the tap that joins them, and zeros where none does.
class PixelPairs {
 public:
  // Of a problem with one group for which are_worth_it() is true.
  explicit PixelPairs(const Problem& problem);

  // True if there are at least 32 images to multiply by the matrix, and it is at most four times as
  // large as the weight and at least half full: the product then does at most twice the arithmetic
  // that is needed.
  static bool are_worth_it(const Problem& problem);

  std::int64_t result_pixels() const { return result_pixels_; }
  Shape matrix_shape() const { return {result_pixels_ * outputs_, pixels_ * inputs_}; }

  // The matrix of a weight, in its dtype. That of a parameter is kept beside it and made again only
  // after it has changed.
  Tensor matrix_of(const Tensor& weight) const;

  // The reverse for gradients: adds up the f32 numbers of all pairs that a tap joins, and rounds
  // once to the dtype of `weight`.
  void fold(const Tensor& matrix, const Tensor& weight) const;

 private:
  static constexpr std::int64_t kNoTap = -1;

  // visit(place of the pair's numbers in the matrix, tap) for all pairs of one output channel.
  template <class Visit>
  void for_pairs(std::int64_t output, const Visit& visit) const;
  template <class Bits>
  void expand(const Bits* weight, const WeightSteps& steps, Bits* matrix) const;
  template <class T>
  void fold(const float* matrix, const WeightSteps& steps, T* weight) const;
  Tensor made_matrix(const Tensor& weight) const;

  std::int64_t outputs_;
  std::int64_t inputs_;
  std::int64_t taps_;
  std::int64_t pixels_;
  std::int64_t result_pixels_;
  std::vector<std::int64_t> joined_by_;  // [result pixel][pixel]: the tap, or kNoTap
  std::vector<std::int64_t> used_taps_;  // that join any
  std::uint64_t geometry_;               // tells apart matrices of one weight
};

}  // namespace mezzo::kernels::conv
