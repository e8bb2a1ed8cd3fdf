// One training step: forward, loss, backward, unscale and check, update.
#pragma once

#include <functional>

#include "mezzo/amp/grad_scaler.h"
#include "mezzo/amp/policy.h"
#include "mezzo/nn/module.h"
#include "mezzo/optim/optimizer.h"

namespace mezzo::train {

// What a step did, and how long its parts took.
struct StepReport {
  double loss = 0;         // before the update, unscaled
  double scale = 1;        // the loss scale of this step
  bool found_inf = false;  // a gradient was not finite
  bool skipped = false;    // hence nothing was updated
  double forward_ms = 0;
  double backward_ms = 0;
  double update_ms = 0;  // unscaling, checking, the optimizer
  double total_ms() const { return forward_ms + backward_ms + update_ms; }
};

// f32 logits and labels to a scalar f32 loss.
using LossFunction = std::function<Tensor(const Tensor& logits, const Tensor& labels)>;

// The network's output in f32, computed under the policy. The loss belongs outside of the region:
// it is computed in f32 at every level.
Tensor forward(nn::Module& net, const Tensor& input, const amp::Policy& policy);

// Does steps with a network, a loss, an optimizer and a scaler. All must outlive it.
class TrainStep {
 public:
  TrainStep(nn::Module& net, LossFunction loss, optim::Optimizer& optimizer,
            amp::GradScaler& scaler, const amp::Policy& policy);

  // Gradients are dropped afterwards. A step whose gradients are not finite changes no parameter
  // and no optimizer state; the scaler reacts.
  StepReport operator()(const Tensor& input, const Tensor& labels);

 private:
  nn::Module& net_;
  LossFunction loss_;
  optim::Optimizer& optimizer_;
  amp::GradScaler& scaler_;
  amp::Policy policy_;
};

}  // namespace mezzo::train
