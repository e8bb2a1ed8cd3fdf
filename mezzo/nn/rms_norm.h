// RMS normalization.
#pragma once

#include <optional>

#include "mezzo/nn/module.h"

namespace mezzo::nn {

struct RmsNormOptions {
  std::optional<double> eps{};  // added to the mean square; not given: see rms_norm()
  bool affine = true;           // with `weight`
};

// Divides x [..., shape] by the root of its mean square over the last axes, whose sizes are
// `shape`. Then scales it by `weight` [shape], which begins as 1 and is f32 whatever the dtype of
// x. The result has the shape and dtype of x. When called, throws ArgumentError unless x is
// floating (f32 or 16 bits if there is a `weight`) and ends in `shape`, and for a negative eps.
class RmsNorm : public Module {
 public:
  // Normalises over the last axis. Throws ArgumentError unless size > 0.
  explicit RmsNorm(std::int64_t size, RmsNormOptions options = {})
      : RmsNorm(Shape{size}, options) {}
  // Throws ArgumentError unless `shape` has sizes and all are positive.
  explicit RmsNorm(const Shape& shape, RmsNormOptions options = {});

  Tensor forward(const Tensor& x) override;

  const Tensor& weight() const { return weight_; }  // undefined unless affine

 private:
  Shape shape_;
  RmsNormOptions options_;
  Tensor weight_;
};

}  // namespace mezzo::nn
