// A convolution's kernel as a matrix between all pixels of an image and all pixels of its result.
#pragma once

#include <cstdint>
#include <vector>

#include "mezzo/kernels/cpu/conv/problem.h"
#include "mezzo/kernels/cpu/loops/layout.h"

namespace mezzo::kernels::conv {

// The matrix [result pixels * o, pixels * c] of a convolution. For each pair of pixels, it holds
// the [o, c] values of the tap that joins them, and zeros if none does.
class PixelPairs {
 public:
  // For a problem with one group and are_worth_it().
  explicit PixelPairs(const Problem& problem);

  // True for at least 32 images, a matrix of at most four times the weight's size, and at least
  // half of it in use. The product then does at most twice the arithmetic that is needed.
  static bool are_worth_it(const Problem& problem);

  std::int64_t result_pixels() const { return result_pixels_; }
  Shape matrix_shape() const { return {result_pixels_ * outputs_, pixels_ * inputs_}; }

  // The matrix of a weight, in its dtype. A parameter's matrix is kept beside it and made again
  // only after the parameter has changed.
  Tensor matrix_of(const Tensor& weight) const;

  // The inverse for gradients: adds up the f32 values of all pairs that a tap joins, and rounds
  // once to the dtype of `weight`.
  void fold(const Tensor& matrix, const Tensor& weight) const;

 private:
  static constexpr std::int64_t kNoTap = -1;

  // Calls visit(place of the pair's values in the matrix, tap) for all pairs of one output channel.
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
  std::vector<std::int64_t> used_taps_;  // the taps that join any pair
  std::uint64_t geometry_;               // distinguishes the matrices of one weight
};

}  // namespace mezzo::kernels::conv
