// Layer normalization.
#pragma once

#include "mezzo/nn/module.h"

namespace mezzo::nn {

struct LayerNormOptions {
  double eps = 1e-5;   // added to the variance
  bool affine = true;  // with `weight` and `bias`
};

// Normalises x [..., shape] over its last axes, whose sizes are `shape`, to mean 0 and variance 1.
// Then scales it by `weight` [shape] and shifts it by `bias` [shape], which begin as 1 and 0 and
// are f32 whatever the dtype of x. The result has the shape and dtype of x. When called, throws
// ArgumentError unless x is floating (f32 or 16 bits if there is a `weight`) and ends in `shape`,
// and for a negative eps.
class LayerNorm : public Module {
 public:
  // Normalises over the last axis. Throws ArgumentError unless size > 0.
  explicit LayerNorm(std::int64_t size, LayerNormOptions options = {})
      : LayerNorm(Shape{size}, options) {}
  // Throws ArgumentError unless `shape` has sizes and all are positive.
  explicit LayerNorm(const Shape& shape, LayerNormOptions options = {});

  Tensor forward(const Tensor& x) override;

  const Tensor& weight() const { return weight_; }  // undefined unless affine
  const Tensor& bias() const { return bias_; }      // undefined unless affine

 private:
  Shape shape_;
  LayerNormOptions options_;
  Tensor weight_;
  Tensor bias_;
};

}  // namespace mezzo::nn
