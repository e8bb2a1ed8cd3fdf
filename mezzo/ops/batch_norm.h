// Batch normalization, optionally with ReLU and a residual input in the same pass over memory.
//
// Ioffe and Szegedy, "Batch Normalization: Accelerating Deep Network Training by Reducing Internal
// Covariate Shift", ICML 2015.
#pragma once

#include "mezzo/core/tensor.h"
#include "mezzo/distributed/process_group.h"

namespace mezzo {

struct BatchNormOptions {
  bool training = true;  // normalise by the statistics of x, else by the running statistics
  double eps = 1e-5;     // added to the variance
  bool relu = false;     // y = max(y, 0), after the residual
  Tensor residual{};     // added to y; has the shape of x
  Tensor running_mean{};
  Tensor running_var{};
  // If given, training normalises by the joint statistics of the batches of all these processes.
  // Each must have the same number of values. The group must outlive the backward pass. Null:
  // statistics of x alone.
  distributed::ProcessGroup* processes = nullptr;
};

struct BatchNormResult {
  Tensor y;
  Tensor mean;  // [c], only in training
  Tensor var;   // [c], the biased variance, only in training
};

// y = (x - mean) / sqrt(var + eps) * weight + bias per channel, then + residual, then ReLU.
//
// x: [n, c] or [n, c, h, w] in f32 or 16 bits; y has its dtype, and is channels-last if it has
// four dimensions. weight, bias and all statistics: [c] and f32 (f64 for f64 x). weight and bias
// may be 16-bit, and are widened before the computation; undefined ones stand for 1 and 0. A
// channel whose variance is not finite becomes NaN, even if x is finite: the squares of values
// beyond 1.8e19 overflow f32, and the resulting quotient 0, which PyTorch gives, would hide the
// overflow. Nothing is changed in place: see update_running_stats(). Gradients flow to x, weight,
// bias and the residual, not through `mean` and `var` of the result. Throws ArgumentError for other
// shapes and dtypes, in training for less than two values per channel, and outside of training
// without running statistics. Throws UnsupportedError for gradients of gradients of several
// processes.
BatchNormResult batch_norm(const Tensor& x, const Tensor& weight, const Tensor& bias,
                           const BatchNormOptions& options = {});

// running = (1 - momentum) * running + momentum * batch, in place and not recorded. The batch
// variance is first made unbiased: batch_var * count / (count - 1). All are f32 [c]; `count` is the
// number of values per channel behind the batch statistics. If one of a channel's new statistics
// would not be finite, both stay unchanged, since they could never become finite again. Throws
// ArgumentError for other shapes or dtypes, and unless count >= 2.
void update_running_stats(const Tensor& running_mean, const Tensor& running_var,
                          const Tensor& batch_mean, const Tensor& batch_var, double momentum,
                          std::int64_t count);

}  // namespace mezzo
