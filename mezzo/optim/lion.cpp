#include "mezzo/optim/lion.h"

#include <cmath>

namespace mezzo::optim {

Lion::Lion(std::vector<Tensor> params, LionOptions options)
    : Lion(std::vector<Group<LionOptions>>{{std::move(params), std::move(options)}}) {}

Lion::Lion(const std::vector<Group<LionOptions>>& groups)
    : RuleOptimizer("Lion", kRuleOf<rules::Lion>) {
  for (const Group<LionOptions>& group : groups) add_group(group);
}

void Lion::add_group(const Group<LionOptions>& group) {
  const LionOptions& o = group.options;
  check_arg(std::isfinite(o.lr.lowest() + o.weight_decay), name(), "options must be finite: lr ",
            o.lr.lowest(), ", weight_decay ", o.weight_decay);
  check_arg(o.lr.lowest() >= 0 && o.weight_decay >= 0, name(), "options must not be negative: lr ",
            o.lr.lowest(), ", weight_decay ", o.weight_decay);
  check_arg(o.beta1 >= 0 && o.beta1 < 1 && o.beta2 >= 0 && o.beta2 < 1, name(),
            "betas must be in [0, 1): ", o.beta1, " and ", o.beta2);
  RuleOptimizer::add_group(group.params, o.lr, o.param_update, o.state_dtype);
  options_.push_back(o);
}

Lion::GroupRule Lion::rule_of(std::size_t group) const {
  const LionOptions& o = options_[group];
  return {
      &kRuleOf<rules::Lion>,
      Factors(rules::Lion::Factors{.lr = static_cast<float>(lr(group)),
                                   .beta1 = static_cast<float>(o.beta1),
                                   .one_minus_beta1 = static_cast<float>(1 - o.beta1),
                                   .beta2 = static_cast<float>(o.beta2),
                                   .one_minus_beta2 = static_cast<float>(1 - o.beta2),
                                   .shrink = static_cast<float>(1 - lr(group) * o.weight_decay)})};
}

}  // namespace mezzo::optim
