// What normalisations divide by; and statistics of a convolution's result that its kernel finds
// while it writes it, so that the batch normalization behind it does not have to read it for them.
#pragma once

#include "mezzo/core/scoped.h"
#include "mezzo/core/tensor.h"

namespace mezzo {

// sqrt(var + eps) by operations, which can be differentiated; NaN where the variance is not finite,
// as kernels have it.
Tensor deviation_by_ops(const Tensor& var, double eps);

// Mean and biased variance per channel, f32 [c]; undefined if nobody has found them.
struct NormStatistics {
  Tensor mean{};
  Tensor var{};
};

// While it exists, a kernel that this thread runs may put statistics of its result there, the same
// to the last bit as a training batch normalization would find.
class FindStatistics {
 public:
  explicit FindStatistics(NormStatistics* statistics);  // null: nobody asks

 private:
  Scoped<NormStatistics*> scope_;
};
// Where to put them; null if nobody asks, or if the kernel `cpu_norm_ahead` is disabled.
NormStatistics* wanted_statistics();

// While it exists, training batch normalizations of this thread take these, if they are defined,
// for those of what they read.
class GiveStatistics {
 public:
  explicit GiveStatistics(const NormStatistics& statistics);

 private:
  Scoped<const NormStatistics*> scope_;
};
// Null if there are none.
const NormStatistics* given_statistics();

}  // namespace mezzo
