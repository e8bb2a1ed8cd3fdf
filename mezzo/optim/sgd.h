// Stochastic gradient descent with momentum.
#pragma once

#include <vector>

#include "mezzo/optim/rule_optimizer.h"

namespace mezzo::optim {

struct SgdOptions {
  LearningRate lr = 0.01;
  double momentum = 0;
  double dampening = 0;     // fraction of the gradient that the momentum leaves out
  double weight_decay = 0;  // times the parameter, added to the gradient
  bool nesterov = false;    // requires momentum and no dampening
  ParamUpdate param_update = ParamUpdate::kMaster;  // for 16-bit parameters
  // The dtype of the state: f32, bf16, or e4m3 by blocks of 256 elements; see
  // mezzo/ops/update/narrow_state.h.
  DType state_dtype = DType::kF32;
};

// torch.optim.SGD: see mezzo/ops/update/rules/sgd-inl.h for the rule.
// State: `momentum.<parameter>`, from the first step with a gradient on, and what Optimizer says of
// counters and 16-bit parameters.
class Sgd final : public RuleOptimizer {
 public:
  // Throws ArgumentError for parameters that cannot be trained, see Optimizer::add_group(), for
  // negative or infinite rates, momentum and decays, and for Nesterov momentum without momentum or
  // with dampening.
  explicit Sgd(std::vector<Tensor> params, SgdOptions options = {});
  explicit Sgd(const std::vector<Group<SgdOptions>>& groups);
  // Adds a group after the others. Their state stays, and an array of learning rates is read from
  // the current position of the others. Throws what the constructors throw, before anything has
  // changed. Training steps and graphs are captured again; results of compile() are refused.
  void add_group(const Group<SgdOptions>& group);

 private:
  GroupRule rule_of(std::size_t group) const override;
  Own own_of(std::size_t group, const Turn& turn) const override;

  std::vector<SgdOptions> options_;
};

}  // namespace mezzo::optim
