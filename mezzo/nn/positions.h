// Positions of tokens, as vectors that are added to them.
#pragma once

#include "mezzo/nn/module.h"

namespace mezzo::nn {

// x [..., t, size] plus the first t rows of a trained `weight` [count, size], which begins as
// standard normal numbers, like Embedding. The sum keeps the dtype of x where that is the wider one
// (see add_residual()). Throws ArgumentError if a size is not positive and, when called, unless
// t <= count and x ends in `size`.
class LearnedPositions : public Module {
 public:
  LearnedPositions(std::int64_t count, std::int64_t size);

  Tensor forward(const Tensor& x) override;
  // The same with the t rows from row `first` on.
  Tensor from(std::int64_t first, const Tensor& x);
  // The same with the rows that `positions` names, integers [b, t] for x [b, t, size]. Throws
  // ArgumentError if one is outside [0, count).
  Tensor at(const Tensor& positions, const Tensor& x);

  const Tensor& weight() const { return weight_; }

 private:
  Tensor weight_;
};

// The same with fixed rows: sin(p / 10000^(2i / size)) in column 2i of row p, and its cosine in
// column 2i + 1 (Vaswani et al.: "Attention is all you need", 2017, section 3.5). They are computed
// in f64 and kept in f32, as the buffer `table`. Throws like LearnedPositions, and for an odd size.
class SinusoidalPositions : public Module {
 public:
  SinusoidalPositions(std::int64_t count, std::int64_t size);

  Tensor forward(const Tensor& x) override;

  const Tensor& table() const { return table_; }

 private:
  Tensor table_;
};

}  // namespace mezzo::nn
