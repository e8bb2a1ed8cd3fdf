// Adam and AdamW.
#pragma once

#include <vector>

#include "mezzo/optim/rule_optimizer.h"

namespace mezzo::optim {

struct AdamOptions {
  LearningRate lr = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0;
  ParamUpdate param_update = ParamUpdate::kMaster;  // for 16-bit parameters
  // The dtype of the state: f32, bf16, or e4m3 by blocks of 256 elements; see
  // mezzo/ops/update/narrow_state.h.
  DType state_dtype = DType::kF32;
};

// torch.optim.Adam: see mezzo/ops/update/rules/adam-inl.h for the rule. The weight
// decay is added to the gradient. State: `exp_avg.<parameter>` and `exp_avg_sq.<parameter>`;
// counters: `step.<parameter>`. They exist from the first step with a gradient on. Besides, what
// Optimizer says of counters and 16-bit parameters.
class Adam : public RuleOptimizer {
 public:
  // Throws ArgumentError for parameters that cannot be trained, see Optimizer::add_group(), for
  // negative or infinite rates, eps and decays, and for betas outside [0, 1).
  explicit Adam(std::vector<Tensor> params, AdamOptions options = {});
  explicit Adam(const std::vector<Group<AdamOptions>>& groups);
  // Adds a group: see Sgd::add_group().
  void add_group(const Group<AdamOptions>& group);

 protected:
  Adam(const char* name, const std::vector<Group<AdamOptions>>& groups, bool decoupled);

 private:
  GroupRule rule_of(std::size_t group) const override;
  Own own_of(std::size_t group, const Turn& turn) const override;

  bool decoupled_;
  std::vector<AdamOptions> options_;
};

// Like AdamOptions, but with a weight decay by default.
struct AdamWOptions {
  LearningRate lr = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0.01;
  ParamUpdate param_update = ParamUpdate::kMaster;  // for 16-bit parameters
  // The dtype of the state: f32, bf16, or e4m3 by blocks of 256 elements; see
  // mezzo/ops/update/narrow_state.h.
  DType state_dtype = DType::kF32;
};

// AdamW, like torch.optim.AdamW: Adam whose weight decay shrinks the parameter itself.
class AdamW final : public Adam {
 public:
  // Throws ArgumentError like Adam.
  explicit AdamW(std::vector<Tensor> params, AdamWOptions options = {});
  explicit AdamW(const std::vector<Group<AdamWOptions>>& groups);
  // Adds a group: see Sgd::add_group().
  void add_group(const Group<AdamWOptions>& group);
};

}  // namespace mezzo::optim
