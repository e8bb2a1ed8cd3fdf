// The update rules of optimizers: each step is one pass over memory, with all parameters in one
// parallel loop.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "mezzo/core/random.h"
#include "mezzo/core/tensor.h"
#include "mezzo/ops/cast.h"
#include "mezzo/ops/update/param_update.h"

namespace mezzo {

// The additional state for updating a bf16 or f16 parameter; ignored for f32.
struct HalfUpdate {
  ParamUpdate rule = ParamUpdate::kMaster;
  Tensor master{};        // for kMaster: f32, initially the parameter
  Tensor compensation{};  // for kKahan: in the parameter's dtype, initially zeros
  RandomPosition
      random{};  // for kStochastic: element i is rounded with the 16-bit number i from here
};

// One parameter's tensors, of one shape and dense in one format. The parameter is f32, bf16 or f16;
// its gradient is f32, or in the parameter's dtype; everything else is f32.
struct SgdTensors {
  Tensor param;
  Tensor grad;
  Tensor momentum;    // zeros before the first step; undefined without momentum
  bool first = true;  // first step: the momentum becomes the gradient, undampened
  HalfUpdate half{};
};

struct SgdStep {
  double lr = 0.01;
  double momentum = 0;
  double dampening = 0;
  double weight_decay = 0;
  bool nesterov = false;
  double inv_scale = 1;  // factor of the gradient, which removes a loss scale
};

// Per element, with g = grad * inv_scale + weight_decay * param:
//   momentum = momentum_factor * momentum + (1 - dampening) * g       (g in the first step)
//   param   -= lr * (nesterov ? g + momentum_factor * momentum : momentum)
// as torch.optim.SGD does; Sutskever et al., "On the importance of initialization and momentum in
// deep learning", ICML 2013. A momentum below 2^-126 becomes zero (flat::kLeastState). In place and
// not recorded. Throws ArgumentError naming the index of a tensor that does not fit.
//
// All of it is computed in f32, for 16-bit parameters too: their values, and 16-bit gradients, are
// widened exactly, before inv_scale is applied; only the result is rounded, as param_update.h says.
void sgd_step(std::span<const SgdTensors> tensors, const SgdStep& step);

struct AdamTensors {
  Tensor param;
  Tensor grad;
  Tensor exp_avg;         // first moment, zeros before the first step
  Tensor exp_avg_sq;      // second moment, zeros before the first step
  std::int64_t step = 1;  // the number of this step, from 1: corrects the bias of the moments
  HalfUpdate half{};
};

struct AdamStep {
  double lr = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0;
  bool decoupled = false;  // AdamW: the decay shrinks the parameter and leaves the gradient alone
  double inv_scale = 1;
};

// Per element, with g = grad * inv_scale (+ weight_decay * param unless decoupled):
//   param      *= 1 - lr * weight_decay                               (if decoupled)
//   exp_avg     = beta1 * exp_avg    + (1 - beta1) * g
//   exp_avg_sq  = beta2 * exp_avg_sq + (1 - beta2) * g * g
//   param      -= lr * (exp_avg / (1 - beta1^step))
//                    / (sqrt(exp_avg_sq / (1 - beta2^step)) + eps)
// Kingma and Ba, "Adam: a method for stochastic optimization", ICLR 2015; Loshchilov and Hutter,
// "Decoupled weight decay regularization", ICLR 2019. With an eps of 1e-10 or more, moments below
// 2^-126 become zero. Otherwise like sgd_step().
void adam_step(std::span<const AdamTensors> tensors, const AdamStep& step);

// The conditions that a queued update reads when it runs, on the device of its parameters.
struct UpdateConditions {
  // i32; the update does nothing unless all of them are flat::kNothingBad. Undefined: it always
  // runs.
  Tensor flags{};
  // Gradients whose norm after unscaling exceeds max_norm are scaled down to it. `squares`: the sum
  // of their squares (f64), see QueuedCheck; undefined: no clipping.
  Tensor squares{};
  double max_norm = 0;
};

// An update whose kernel is queued separately from the host's part, so that a recording can hold
// the kernel. The list that the kernel works on is in device memory and is rewritten before every
// launch. So addresses, learning rates and step counts may differ between launches.
//
//   queued.put(tensors, step);  // before every launch
//   queued.queue(flags);        // this is recorded
//   queued.keep();              // once the update is known to have run, else drop()
//
// The results are those of sgd_step() and adam_step().
template <class Tensors, class Step>
class QueuedUpdate {
 public:
  // For at most `params` parameters on a device.
  QueuedUpdate(std::size_t params, Device device);

  // Throws ArgumentError like the steps, before anything has changed, and for more parameters than
  // the list holds. Gradients need not be computed yet, only allocated: they are read when the
  // kernel runs.
  void put(std::span<const Tensors> tensors, const Step& step);
  // Queues the kernel, for as many parameters as the last put().
  void queue(const UpdateConditions& conditions) const;
  // If the update has run: counts its changes.
  void keep();
  // If flags prevented it: releases the gradients, and copies that others may renew.
  void drop();

  Device device() const { return list_.device(); }

 private:
  Tensor list_;             // on the device: the factors, then the blocks
  double moved_bytes_ = 0;  // by one update, for profiles
  std::size_t count_ = 0;
  std::vector<Tensors> tensors_;
  std::vector<RenewedCopy> copies_;
};

using QueuedSgd = QueuedUpdate<SgdTensors, SgdStep>;
using QueuedAdam = QueuedUpdate<AdamTensors, AdamStep>;

// Makes `master` agree with a 16-bit parameter that others may have changed: elements that do not
// round to the parameter's are replaced by them; the others keep their f32 bits.
void refresh_master(const Tensor& param, const Tensor& master);

}  // namespace mezzo
