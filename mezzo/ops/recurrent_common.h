// What the definitions of lstm and gru have in common: checks, and walking through the steps by
// elementary operations.
#pragma once

#include <vector>

#include "mezzo/core/tensor.h"
#include "mezzo/ops/dispatcher/op.h"
#include "mezzo/ops/recurrent.h"
#include "mezzo/ops/recurrent_attrs.h"

namespace mezzo {

// The dtype of states: f32 for 16-bit gates, too. A state is added to at every step, and in 16 bits
// would stop changing once the additions are below its spacing.
constexpr DType state_dtype(DType gates) {
  return gates == DType::kF64 ? DType::kF64 : DType::kF32;
}

// Checks the inputs of lstm and gru, which begin with gates, weight and bias. `cell` is 0 for gru.
struct RecurrentInputs {
  std::int64_t gates;  // per unit
  std::size_t hidden;
  std::size_t cell;
  std::size_t lengths;
};
void check_recurrent(const Infer& infer, const RecurrentInputs& inputs);

// The steps of sequences in the order in which they are computed.
class RecurrentSteps {
 public:
  RecurrentSteps(std::int64_t count, Tensor lengths, bool reverse);

  std::int64_t count() const { return count_; }
  // The position of step i of the computation.
  std::int64_t at(std::int64_t i) const { return reverse_ ? count_ - 1 - i : i; }
  // `now` where sequences have that position, else `otherwise`, or 0 if that is undefined.
  // now: [b, c].
  Tensor choose(std::int64_t position, const Tensor& now, const Tensor& otherwise) const;
  // The part of x [b, t, c] that belongs to the step before the one at that position, [b, c], or
  // `initial` (or 0) where that is the first one. Undefined for zeros everywhere.
  Tensor before(std::int64_t position, const Tensor& x, const Tensor& initial) const;

 private:
  std::int64_t count_;
  Tensor lengths_;  // [b, 1], or undefined
  bool reverse_;
};

// x[:, position] of x [b, t, c]: [b, c]. Undefined if x is.
Tensor at_step(const Tensor& x, std::int64_t position);
// Part `gate` of x [b, gates * h]: [b, h]. Undefined if x is.
Tensor gate_of(const Tensor& x, std::int64_t gate, std::int64_t h);
// [b, t, c] of the parts [b, c] of every position, in that dtype.
Tensor join_steps(const std::vector<Tensor>& steps, DType dtype);
// a + b; an undefined tensor stands for zeros.
Tensor sum_of_defined(const Tensor& a, const Tensor& b);
// h W^T + bias, widened; undefined if both h and the bias are.
Tensor state_product(const Tensor& h, const RecurrentWeights& weights, DType dtype);
// Input `i` of the call whose gradients are asked for; undefined if it was left out.
Tensor input_if_given(const Backward& ctx, std::size_t i);
// [b, t, c] as [b * t, c].
Tensor rows_of_steps(const Tensor& x);
// Sets the gradients of the weight and the bias, inputs 1 and 2: `sums` [b, t, gates * h] is the
// gradient of h W^T + bias, `previous` [b, t, h] the state h before every step.
void set_weight_grads(Backward& ctx, const Tensor& sums, const Tensor& previous);

}  // namespace mezzo
