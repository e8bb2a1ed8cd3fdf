// The fully connected layer.
#pragma once

#include "mezzo/nn/module.h"

namespace mezzo::nn {

// x [..., in] times the transpose of `weight` [out, in], plus `bias` [out], which are f32:
// [..., out]. The initial values are PyTorch's, see init::default_weight. Throws ArgumentError if a
// size is not positive and, when called, if the last size of x is not `in`.
class Linear : public Module {
 public:
  Linear(std::int64_t in_features, std::int64_t out_features, bool bias = true);

  Tensor forward(const Tensor& x) override;

  const Tensor& weight() const { return weight_; }
  const Tensor& bias() const { return bias_; }  // undefined without a bias

 private:
  Tensor weight_;
  Tensor bias_;
};

}  // namespace mezzo::nn
