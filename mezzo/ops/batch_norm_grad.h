// The fused gradient of batch normalization.
#pragma once

#include "mezzo/core/tensor.h"
#include "mezzo/ops/batch_norm_attrs.h"

namespace mezzo {

// The inputs of the gradient: see batch_norm(). `mean` and `var` are those that x was normalised
// with. `y` or `residual` is given only if a residual was added before the ReLU.
struct BatchNormSaved {
  Tensor x{};
  Tensor weight{};
  Tensor bias{};
  Tensor mean{};
  Tensor var{};
  Tensor y{};
  Tensor residual{};  // instead of y

  bool has_residual() const { return y.defined() || residual.defined(); }
};

struct BatchNormGrads {
  Tensor x;
  Tensor weight;
  Tensor bias;
  Tensor residual;  // defined if there was one
};

// The gradients of batch_norm, all in one kernel; the result cannot be differentiated. They
// overwrite `grad` and `saved.x` if the caller gives these up by moving them here. With a residual,
// `other_grad` may be a second gradient, which is added to the first one.
BatchNormGrads batch_norm_grad(Tensor grad, BatchNormSaved saved, const BatchNormAttrs& attrs,
                               const Tensor& other_grad = {});

// Like batch_norm_grad(), but from differentiable operations, for gradients of gradients.
BatchNormGrads batch_norm_grad_by_ops(const Tensor& grad, const BatchNormSaved& saved,
                                      const BatchNormAttrs& attrs);

}  // namespace mezzo
