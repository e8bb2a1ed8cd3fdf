// Pending results of batch normalization: recomputed when they are read, instead of being kept
// until the backward pass.
#pragma once

#include "mezzo/core/tensor.h"
#include "mezzo/ops/batch_norm_attrs.h"

namespace mezzo {

class Node;

// The inputs of a normalisation, with the statistics that it has found. Its result equals
// batch_norm() of these outside of training: the same instructions on the same values, hence the
// same bits.
struct PendingNorm {
  Tensor x{};               // [n, c] or [n, c, h, w]
  Tensor weight{}, bias{};  // f32 [c], or undefined for 1 and 0
  Tensor mean{}, var{};     // f32 [c]
  Tensor residual{};        // like x, or undefined
  BatchNormAttrs attrs{};
};

// True where recomputing is better than keeping: for 16-bit dtypes on CPUs, unless the kernel
// `cpu_norm_recompute` is disabled.
bool is_norm_recompute_worth_it(DType dtype, Device device);

// The result of such a normalisation, whose elements are computed when they are first read. Its
// inputs must not be changed before that.
Tensor make_pending_norm(PendingNorm norm);

// A tensor like the result of a recorded batch_norm or batch_norm_add_relu, whose elements are
// computed when they are first read, from the tensors that the node keeps for its own gradient.
// Undefined where this is not worth it. It is worth it in 16 bits on CPUs, where the weight
// gradient of a convolution copies its images anyway and normalises them on the way. f32 images are
// read in place, and would take an additional pass over memory.
//
// With a residual, another gradient must keep the residual: of consecutive residual blocks, every
// other result is dropped and its neighbours are kept. The node then saves the residual for its
// gradient and gives up its result. Disabling `cpu_norm_recompute` (disable_kernels()) keeps all
// results.
Tensor recompute_norm(Node& norm);

// The inputs from which the elements of such a tensor will be computed, as long as nobody has read
// them; null for any other tensor.
const PendingNorm* pending_norm_of(const Tensor& tensor);

}  // namespace mezzo
