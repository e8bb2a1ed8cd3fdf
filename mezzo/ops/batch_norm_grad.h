// The fused gradient of batch normalization.
#pragma once

#include "mezzo/core/tensor.h"
#include "mezzo/ops/batch_norm_attrs.h"

namespace mezzo {

// What the gradient is computed from: see batch_norm(). `mean` and `var` are those that x was
// normalised by; `y` or `residual` only if a residual was added before the ReLU.
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

// The gradients of batch_norm, all in one kernel; the result cannot be differentiated. They are
// written over `grad` and `saved.x` where the caller gives these away: moves them here. With a
// residual, `other_grad` may be a second gradient, which is added to the first one.
BatchNormGrads batch_norm_grad(Tensor grad, BatchNormSaved saved, const BatchNormAttrs& attrs,
                               const Tensor& other_grad = {});

// The same made of differentiable operations, for gradients of gradients.
BatchNormGrads batch_norm_grad_by_ops(const Tensor& grad, const BatchNormSaved& saved,
                                      const BatchNormAttrs& attrs);

}  // namespace mezzo
