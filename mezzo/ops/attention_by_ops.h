// Attention composed of other operations, which keep arrays of size t * s: for second derivatives,
// gradients of masks, and heads that are too large for the kernels of a device.
#pragma once

#include "mezzo/core/tensor.h"
#include "mezzo/ops/attention_attrs.h"

namespace mezzo {

// The operands in the order of attention(): q [b, h, t, d], k and v [b, h_kv, s, ...]. mask: [b|1,
// h|1, t|1, s|1] or undefined; start: as that of dropout(), or undefined.
struct AttentionOperands {
  Tensor q;
  Tensor k;
  Tensor v;
  Tensor mask;
  Tensor start;
};

// The result of attention(), [b, h, t, dv].
Tensor attention_by_ops(const AttentionOperands& x, const AttentionAttrs& attrs);

struct AttentionGrads {
  Tensor q;
  Tensor k;
  Tensor v;
  Tensor mask;  // of the mask's shape; undefined unless the mask is floating
};

// The gradients, differentiable, from that of the result, [b, h, t, dv]. They have the dtype of the
// statistics.
AttentionGrads attention_grads_by_ops(const Tensor& grad, const AttentionOperands& x,
                                      const AttentionAttrs& attrs);

}  // namespace mezzo
