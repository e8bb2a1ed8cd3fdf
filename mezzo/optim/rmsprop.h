// RMSprop.
#pragma once

#include <vector>

#include "mezzo/optim/rule_optimizer.h"

namespace mezzo::optim {

// The defaults of torch.optim.RMSprop.
struct RmsPropOptions {
  LearningRate lr = 0.01;
  double alpha = 0.99;  // the part of the averages that stays
  double eps = 1e-8;
  double weight_decay = 0;  // added to the gradient, times the parameter
  double momentum = 0;
  bool centered =
      false;  // divides by the standard deviation in place of the root of the mean square
  ParamUpdate param_update = ParamUpdate::kMaster;  // of 16-bit parameters
  // The dtype of the state: f32, bf16, or e4m3 by blocks of 256 elements; see
  // mezzo/ops/update/narrow_state.h. f32 if centered.
  DType state_dtype = DType::kF32;
};

// torch.optim.RMSprop: see mezzo/ops/update/rules/rmsprop-inl.h for the rule. State:
// `square_avg.<parameter>`, `grad_avg.<parameter>` if centered, and `momentum_buffer.<parameter>`
// with momentum, from the first step with a gradient on, and what Optimizer says of counters and
// 16-bit parameters.
class RmsProp final : public RuleOptimizer {
 public:
  // Throws ArgumentError for parameters that cannot be trained, see Optimizer::add_group(),
  // negative or infinite rates, eps, momentum and decays, an alpha outside [0, 1), and centered
  // averages that are not f32.
  explicit RmsProp(std::vector<Tensor> params, RmsPropOptions options = {});
  explicit RmsProp(const std::vector<Group<RmsPropOptions>>& groups);
  // One more group: see Sgd::add_group().
  void add_group(const Group<RmsPropOptions>& group);

 private:
  GroupRule rule_of(std::size_t group) const override;

  std::vector<RmsPropOptions> options_;
};

}  // namespace mezzo::optim
