// Layers without parameters that work element-wise or only change the shape. All keep the dtype of
// x; those that compute throw ArgumentError for integers.
#pragma once

#include "mezzo/nn/module.h"
#include "mezzo/ops/piecewise.h"
#include "mezzo/ops/pointwise.h"

namespace mezzo::nn {

// max(x, 0).
class ReLU : public Module {
 public:
  Tensor forward(const Tensor& x) override;
};

// x times the normal distribution's integral up to x: see gelu().
class GELU : public Module {
 public:
  explicit GELU(GeluForm form = GeluForm::kExact) : form_(form) {}

  Tensor forward(const Tensor& x) override;

 private:
  GeluForm form_;
};

// x * sigmoid(x), also called swish.
class SiLU : public Module {
 public:
  Tensor forward(const Tensor& x) override;
};

// x where it is positive, negative_slope * x elsewhere.
class LeakyReLU : public Module {
 public:
  explicit LeakyReLU(double negative_slope = 0.01) : negative_slope_(negative_slope) {}

  Tensor forward(const Tensor& x) override;

 private:
  double negative_slope_;
};

// 1 / (1 + exp(-x)).
class Sigmoid : public Module {
 public:
  Tensor forward(const Tensor& x) override;
};

// The hyperbolic tangent.
class Tanh : public Module {
 public:
  Tensor forward(const Tensor& x) override;
};

// x, unchanged.
class Identity : public Module {
 public:
  Tensor forward(const Tensor& x) override;
};

// Merges the axes from `start` to `end` into one: [n, c, h, w] becomes [n, c * h * w]. Negative
// axes count from the end. When called, throws ArgumentError for axes that x does not have.
class Flatten : public Module {
 public:
  explicit Flatten(std::int64_t start = 1, std::int64_t end = -1) : start_(start), end_(end) {}

  Tensor forward(const Tensor& x) override;

 private:
  std::int64_t start_;
  std::int64_t end_;
};

}  // namespace mezzo::nn
