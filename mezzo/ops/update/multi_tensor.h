// One pass over lists of tensors, as gradients come: checked, scaled and measured together, in one
// parallel loop however many tensors there are. All changes are in place and not recorded.
//
// Tensors are f32, bf16 or f16 and dense; undefined ones are skipped. Throws ArgumentError for
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
// element is looked at: a sum would be infinite for finite gradients that are merely large.
std::optional<std::size_t> first_nonfinite(std::span<const Tensor> tensors);
inline bool all_finite(std::span<const Tensor> tensors) { return !first_nonfinite(tensors); }

// Check and norm as work that a recording can hold: what is looked at is a list in the device's
// memory, which is put there anew for every launch.
class QueuedCheck {
 public:
  // Tensors on the device whose products with `factor`, as f32 numbers, are to be finite; their
  // values may come later. The first list says how long others can be, until another device is
  // given. Throws ArgumentError for tensors of other kinds, as first_nonfinite() does, and for
  // longer lists.
  void put(std::span<const Tensor> tensors, float factor, Device device);
  // A list as long as that of these tensors, in which nothing is found.
  void put_nothing(std::span<const Tensor> tensors, Device device);
  // Lowers `first_bad`, a number (i32) on the device, to that of the first tensor that is not
  // finite, which tensor_of() understands. `squares`: what queue_squares() has written before, if
  // it has; the check is for free then.
  void queue(const Tensor& first_bad, const Tensor& squares = Tensor()) const;
  // Writes the sum of the squares of the products, each rounded to f32, into a number (f64) on the
  // device.
  void queue_squares(const Tensor& squares) const;
  // The index of a tensor that was found in the last list.
  std::size_t tensor_of(std::int32_t found) const {
    return index_[static_cast<std::size_t>(found)];
  }

 private:
  void put_list(std::span<const Tensor> tensors, float factor, Device device, bool looks);
  template <class Kernel>
  void run(const char* op, const Kernel& kernel) const;

  Tensor list_;  // on the device: the factor, then the blocks of those that are defined
  std::vector<std::size_t> index_;
  double read_bytes_ = 0;
};

// Multiplies every tensor by `factor` and checks the results, in the same pass. All tensors are
// multiplied, also behind one that is not finite. Throws ArgumentError if two of them share memory:
// the shared elements would be multiplied twice.
std::optional<std::size_t> scale_in_place(std::span<const Tensor> tensors, float factor);
// Takes the loss scale out of gradients: multiplies by 1 / scale.
inline std::optional<std::size_t> unscale(std::span<const Tensor> grads, float inv_scale) {
  return scale_in_place(grads, inv_scale);
}

// The exponents of every tensor's values times `factor`; nothing is changed. Replaces the check of
// a step that wants both: a tensor is finite if its counts are. Throws ArgumentError unless the
// factor is positive and finite.
std::vector<ExponentCounts> count_exponents(std::span<const Tensor> tensors, float factor = 1);
// The index of the first count with an infinity or a NaN.
std::optional<std::size_t> first_nonfinite(std::span<const ExponentCounts> counts);

// The sum of the squares of all elements, in f64: squares of f32 gradients above 1.8e19 leave f32's
// range, and a norm over millions of elements needs more than f32's 24 bits. `op` is what errors
// name.
double sum_of_squares(std::span<const Tensor> tensors, const char* op = "sum_of_squares");

// Limits every element to [-limit, limit]; NaN stays. Throws ArgumentError like scale_in_place().
void clamp_in_place(std::span<const Tensor> tensors, float limit);

}  // namespace mezzo
