// Stochastic gradient descent with momentum.
#pragma once

#include <vector>

#include "mezzo/optim/rule_optimizer.h"

namespace mezzo::optim {

struct SgdOptions {
  LearningRate lr = 0.01;
  double momentum = 0;
  double dampening = 0;     // how much of the gradient the momentum leaves out
  double weight_decay = 0;  // added to the gradient, times the parameter
  bool nesterov = false;    // needs momentum and no dampening
  ParamUpdate param_update = ParamUpdate::kMaster;  // of 16-bit parameters
};

// torch.optim.SGD: see mezzo/ops/update/rules/sgd-inl.h for the rule.
// State: `momentum.<parameter>`, from the first step with a gradient on, and what Optimizer says of
// counters and 16-bit parameters.
class Sgd final : public RuleOptimizer {
 public:
  // Throws ArgumentError for parameters that cannot be trained, see Optimizer::add_group(),
  // negative or infinite rates, momentum and decays, and Nesterov momentum without momentum or with
  // dampening.
  explicit Sgd(std::vector<Tensor> params, SgdOptions options = {});
  explicit Sgd(const std::vector<Group<SgdOptions>>& groups);
  // One more group, behind the others; their state stays, and an array of learning rates is read
  // from the place that the others are at. Throws what the constructors throw, before anything has
  // changed. Training steps and graphs are captured anew; what compile() captured is refused.
  void add_group(const Group<SgdOptions>& group);

 private:
  GroupRule rule_of(std::size_t group) const override;
  Own own_of(std::size_t group, const Turn& turn) const override;

  std::vector<SgdOptions> options_;
};

}  // namespace mezzo::optim
