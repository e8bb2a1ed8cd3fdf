// The update rules of optimizers: everything that a step does to a parameter, in one pass over
// memory, and all parameters in one parallel loop.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "mezzo/core/random.h"
#include "mezzo/core/tensor.h"
#include "mezzo/ops/cast.h"
#include "mezzo/ops/update/param_update.h"

namespace mezzo {

// What the update of a bf16 or f16 parameter needs besides; of no meaning for one in f32.
struct HalfUpdate {
  ParamUpdate rule = ParamUpdate::kMaster;
  Tensor master{};        // of kMaster: f32, at first the parameter
  Tensor compensation{};  // of kKahan: in the parameter's dtype, at first zeros
  RandomPosition
      random{};  // of kStochastic: element i is rounded by the 16 bits number i from here
};

// One parameter's tensors, of one shape and dense in one format. The parameter is f32, bf16 or f16;
// its gradient is f32, or in the parameter's dtype; everything else is f32.
struct SgdTensors {
  Tensor param;
  Tensor grad;
  Tensor momentum;    // zeros before the first step; undefined without momentum
  bool first = true;  // nothing was gathered yet: the momentum becomes the gradient, undampened
  HalfUpdate half{};
};

struct SgdStep {
  double lr = 0.01;
  double momentum = 0;
  double dampening = 0;
  double weight_decay = 0;
  bool nesterov = false;
  double inv_scale = 1;  // the gradient is multiplied by this, to take out a loss scale
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
  std::int64_t step = 1;  // which step this is, from 1: corrects the bias of the moments
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

// What a queued update reads when it is done, on the device of its parameters.
struct UpdateConditions {
  // i32; the update does nothing if one of them is not flat::kNothingBad. Undefined: it always
  // works.
  Tensor flags{};
  // Gradients that are longer than max_norm once they are unscaled are shortened to it. `squares`:
  // the sum of their squares (f64), see QueuedCheck; undefined: they stay as they are.
  Tensor squares{};
  double max_norm = 0;
};

// An update whose kernel is queued apart from what the host does for it, so that a recording can
// hold the kernel: what it is to work on is a list in the device's memory, which is put there anew
// for every launch. Addresses, learning rates and counts of steps may then differ from launch to
// launch.
//
//   queued.put(tensors, step);  // before every launch
//   queued.queue(flags);        // what is recorded
//   queued.keep();              // once it is known that it was done, else drop()
//
// The results are those of sgd_step() and adam_step().
template <class Tensors, class Step>
class QueuedUpdate {
 public:
  // For at most that many parameters of a device.
  QueuedUpdate(std::size_t params, Device device);

  // Throws ArgumentError like the steps, before anything has changed, and for more parameters than
  // there is room for. Gradients need only lie where they will: they are read when the work is
  // done.
  void put(std::span<const Tensors> tensors, const Step& step);
  // The kernel, for as many parameters as were put last.
  void queue(const UpdateConditions& conditions) const;
  // If it was done: counts the changes that it has made.
  void keep();
  // If flags kept it from that: lets go of the gradients, and of copies that others may renew.
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

// Makes `master` fit to a 16-bit parameter that may have been changed by others: elements whose
// rounding is not the parameter's become the parameter's, the others keep their f32 bits.
void refresh_master(const Tensor& param, const Tensor& master);

}  // namespace mezzo
