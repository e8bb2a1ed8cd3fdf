// Lion.
#pragma once

#include <vector>

#include "mezzo/optim/rule_optimizer.h"

namespace mezzo::optim {

// The defaults of the paper's own implementation.
struct LionOptions {
  LearningRate lr = 1e-4;
  double beta1 = 0.9;       // the part of the direction that gathered gradients have
  double beta2 = 0.99;      // the part of the gathered gradients that stays
  double weight_decay = 0;  // shrinks the parameter itself, by lr times this
  ParamUpdate param_update = ParamUpdate::kMaster;  // of 16-bit parameters
  // The dtype of the state: f32, bf16, or e4m3 by blocks of 256 elements; see
  // mezzo/ops/update/narrow_state.h.
  DType state_dtype = DType::kF32;
};

// Moves every element by the learning rate, in the direction of a sign: see
// mezzo/ops/update/rules/lion-inl.h for the rule. Learning rates are three to ten times smaller
// than those of rules that divide by a root mean square, decays as much larger. State:
// `exp_avg.<parameter>`, from the first step with a gradient on, and what Optimizer says of
// counters and 16-bit parameters.
class Lion final : public RuleOptimizer {
 public:
  // Throws ArgumentError for parameters that cannot be trained, see Optimizer::add_group(),
  // negative or infinite rates and decays, and betas outside [0, 1).
  explicit Lion(std::vector<Tensor> params, LionOptions options = {});
  explicit Lion(const std::vector<Group<LionOptions>>& groups);
  // One more group: see Sgd::add_group().
  void add_group(const Group<LionOptions>& group);

 private:
  GroupRule rule_of(std::size_t group) const override;

  std::vector<LionOptions> options_;
};

}  // namespace mezzo::optim
