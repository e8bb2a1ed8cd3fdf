// A product with its activation: two kernels run on one block of memory.
#pragma once

#include "mezzo/kernels/kernel.h"
#include "mezzo/ops/activated_attrs.h"
#include "mezzo/ops/all.h"
#include "mezzo/ops/dispatcher/dispatch.h"

namespace mezzo::kernels {

// The operation that computes the activation alone.
inline const OpDef& op_of(Activation activation) {
  return activation == Activation::kRelu ? ops::relu : ops::gelu;
}
inline Attrs attrs_of(Activation activation) {
  if (activation == Activation::kRelu) return {};
  return GeluAttrs{activation == Activation::kGelu ? GeluForm::kExact : GeluForm::kTanh};
}

// The activation overwrites the product, much of which is still in the caches. The activation is
// mezzo's own, because oneDNN's fused ones are wrong. Its ReLU turns NaN into 0, so an overflow
// that should make a step be skipped would go unnoticed. Its GELU is NaN at -inf and loses the left
// tail.
inline void run_activated(const KernelArgs& args, const OpDef& product, const Attrs& attrs,
                          Activation activation) {
  run_kernel(product, args.inputs, args.outputs, attrs);
  const Tensor* const y = &args.output();
  run_kernel(op_of(activation), {&y, 1}, args.outputs, attrs_of(activation));
}

inline void run_linear_activation(const KernelArgs& args) {
  run_activated(args, ops::linear, {}, args.attrs<LinearActivationAttrs>().activation);
}

inline void run_matmul_activation(const KernelArgs& args) {
  const auto& attrs = args.attrs<MatmulActivationAttrs>();
  run_activated(args, ops::matmul, attrs.product, attrs.activation);
}

inline void run_conv2d_activation(const KernelArgs& args) {
  const auto& attrs = args.attrs<Conv2dActivationAttrs>();
  run_activated(args, ops::conv2d, attrs.product, attrs.activation);
}

}  // namespace mezzo::kernels
