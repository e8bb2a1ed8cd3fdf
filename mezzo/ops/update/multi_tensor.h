// Operations on lists of gradients: checking, scaling and measuring all of them in one parallel
// loop, however many tensors there are. All changes are in place and not recorded.
//
// Tensors are f32 or in 16 bits, and dense; undefined ones are skipped. Throws ArgumentError for
// others. Results do not depend on the number of threads.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "mezzo/core/tensor.h"
#include "mezzo/ops/update/exponent_counts.h"

namespace mezzo {

// The index of the first tensor that holds an infinity or a NaN; none if all are finite. Every
// element is checked, because the sum of large finite gradients could be infinite.
std::optional<std::size_t> first_nonfinite(std::span<const Tensor> tensors);
inline bool all_finite(std::span<const Tensor> tensors) { return !first_nonfinite(tensors); }

// Check and norm as work that a recording can hold. The list of tensors is in device memory, and is
// rewritten before every launch.
class QueuedCheck {
 public:
  // Sets the tensors on the device whose products with `factor`, as f32 numbers, are to be finite;
  // their values may be written later. The first list limits the length of later ones, until
  // another device is given. Throws ArgumentError for other kinds of tensors, like
  // first_nonfinite(), and for longer lists.
  void put(std::span<const Tensor> tensors, float factor, Device device);
  // Sets a list as long as that of these tensors, in which nothing is found.
  void put_nothing(std::span<const Tensor> tensors, Device device);
  // Lowers `first_bad`, an i32 number on the device, to that of the first tensor that is not
  // finite; tensor_of() translates it. If `squares` is given, queue_squares() has written it
  // before, and the check costs nothing.
  void queue(const Tensor& first_bad, const Tensor& squares = Tensor()) const;
  // Writes the sum of the squares of the products, each rounded to f32, into an f64 number on the
  // device.
  void queue_squares(const Tensor& squares) const;
  // The index, in the last list, of the tensor that was found.
  std::size_t tensor_of(std::int32_t found) const {
    return index_[static_cast<std::size_t>(found)];
  }

 private:
  void put_list(std::span<const Tensor> tensors, float factor, Device device, bool looks);
  template <class Kernel>
  void run(const char* op, const Kernel& kernel) const;

  Tensor list_;  // on the device: the factor, then the blocks of defined tensors
  std::vector<std::size_t> index_;
  double read_bytes_ = 0;
};

// Multiplies every tensor by `factor` and checks the results in the same pass. All tensors are
// multiplied, even those after one that is not finite. Throws ArgumentError if two of them share
// memory, which would be multiplied twice.
std::optional<std::size_t> scale_in_place(std::span<const Tensor> tensors, float factor);
// Removes the loss scale from gradients: multiplies by 1 / scale.
inline std::optional<std::size_t> unscale(std::span<const Tensor> grads, float inv_scale) {
  return scale_in_place(grads, inv_scale);
}

// The exponents of every tensor's values times `factor`; nothing is changed. In a step that needs
// both, this replaces the check: a tensor is finite if its counts are. Throws ArgumentError unless
// the factor is positive and finite.
std::vector<ExponentCounts> count_exponents(std::span<const Tensor> tensors, float factor = 1);
// The index of the first histogram that contains an infinity or a NaN.
std::optional<std::size_t> first_nonfinite(std::span<const ExponentCounts> counts);

// The sum of the squares of all elements, in f64: squares of f32 gradients above 1.8e19 overflow
// f32, and a norm over millions of elements needs more than f32's 24 bits. `op` is the name in
// errors.
double sum_of_squares(std::span<const Tensor> tensors, const char* op = "sum_of_squares");

// Limits every element to [-limit, limit]; NaN stays. Throws ArgumentError like scale_in_place().
void clamp_in_place(std::span<const Tensor> tensors, float limit);

}  // namespace mezzo
