// Results of batch normalization that are computed again when they are asked for, instead of being
// kept until the backward pass.
#pragma once

#include "mezzo/core/tensor.h"
#include "mezzo/ops/batch_norm_attrs.h"

namespace mezzo {

class Node;

// What a normalisation reads, with the statistics that it has found. Its result is the batch_norm()
// of these outside of training: the same instructions on the same numbers, hence the same bits.
struct PendingNorm {
  Tensor x{};               // [n, c] or [n, c, h, w]
  Tensor weight{}, bias{};  // f32 [c], or undefined for 1 and 0
  Tensor mean{}, var{};     // f32 [c]
  Tensor residual{};        // like x, or undefined
  BatchNormAttrs attrs{};
};

// True where the elements are better computed again than kept: 16 bits on CPUs, unless the kernel
// `cpu_norm_recompute` is disabled.
bool is_norm_recompute_worth_it(DType dtype, Device device);

// The result of such a normalisation, whose elements are computed when they are first asked for.
// What it reads must not be changed before.
Tensor make_pending_norm(PendingNorm norm);

// A tensor like the result of a recorded batch_norm or batch_norm_add_relu, whose elements are
// computed when they are first asked for, from what the node keeps for its own gradient; undefined
// unless that is worth it. It is in 16 bits on CPUs, where the gradient by a convolution's weight
// copies its images anyway and normalises them on the way; f32 images are read where they are, and
// would take a pass over memory of their own.
//
// With a residual, that must be kept by another gradient: of residual blocks in a row, every other
// result goes and its neighbours stay. The node then has the residual for its gradient and gives up
// its result. Disabling `cpu_norm_recompute` (disable_kernels()) has all results kept.
Tensor recompute_norm(Node& norm);

// What the elements of such a tensor will be computed from, while nobody has asked for them; null
// for any other tensor.
const PendingNorm* pending_norm_of(const Tensor& tensor);

}  // namespace mezzo
