// The divisor of normalisations. Also statistics that a convolution's kernel computes while it
// writes its result, so that the batch normalization that follows need not read the result for
// them.
#pragma once

#include "mezzo/core/scoped.h"
#include "mezzo/core/tensor.h"

namespace mezzo {

// sqrt(var + eps) from differentiable operations; NaN where the variance is not finite, as in the
// kernels.
Tensor deviation_by_ops(const Tensor& var, double eps);

// Mean and biased variance per channel, f32 [c]; undefined if they were not computed.
struct NormStatistics {
  Tensor mean{};
  Tensor var{};
};

// While it exists, a kernel that this thread runs may store the statistics of its result there.
// They must be bit-identical to those of a training batch normalization.
class FindStatistics {
 public:
  explicit FindStatistics(NormStatistics* statistics);  // null: none are wanted

 private:
  Scoped<NormStatistics*> scope_;
};
// Where to store statistics; null if none are wanted or the kernel `cpu_norm_ahead` is disabled.
NormStatistics* wanted_statistics();

// While it exists, training batch normalizations of this thread use these statistics of their
// input, if they are defined, instead of computing them.
class GiveStatistics {
 public:
  explicit GiveStatistics(const NormStatistics& statistics);

 private:
  Scoped<const NormStatistics*> scope_;
};
// Null if there are none.
const NormStatistics* given_statistics();

}  // namespace mezzo
