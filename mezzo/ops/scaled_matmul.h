// Products of matrices of eight bits.
#pragma once

#include "mezzo/ops/scaled_cast.h"

namespace mezzo {

struct ScaledMatmulOptions {
  bool transpose_a = false;
  bool transpose_b = false;
  DType dtype = DType::kBf16;  // of the result: f32 or a lower precision
  Tensor bias{};               // [n], added in f32
};

// The product of a [m, k] and b [k, n], each after its transposition, plus the bias: [m, n].
// Products of codes are exact in f32, and so are their scales for blocks; sums are kept in f32, and
// scales of tensors and lines multiply the sums. Has no gradient. Throws ArgumentError unless the
// inner sizes agree, and scales lie as the sum needs them: lines across it, blocks along it.
Tensor scaled_matmul(const ScaledTensor& a, const ScaledTensor& b,
                     const ScaledMatmulOptions& options = {});

}  // namespace mezzo
