#include "mezzo/optim/sgd.h"

#include <cmath>

namespace mezzo::optim {

Sgd::Sgd(std::vector<Tensor> params, SgdOptions options)
    : Sgd(std::vector<Group<SgdOptions>>{{std::move(params), std::move(options)}}) {}

Sgd::Sgd(const std::vector<Group<SgdOptions>>& groups)
    : RuleOptimizer("Sgd", kRuleOf<rules::Sgd<true, false>>) {
  for (const Group<SgdOptions>& group : groups) add_group(group);
}

void Sgd::add_group(const Group<SgdOptions>& group) {
  const SgdOptions& o = group.options;
  check_arg(std::isfinite(o.lr.lowest() + o.momentum + o.weight_decay + o.dampening), name(),
            "options must be finite: lr ", o.lr.lowest(), ", momentum ", o.momentum,
            ", weight_decay ", o.weight_decay, ", dampening ", o.dampening);
  check_arg(o.lr.lowest() >= 0 && o.momentum >= 0 && o.weight_decay >= 0, name(),
            "options must not be negative: lr ", o.lr.lowest(), ", momentum ", o.momentum,
            ", weight_decay ", o.weight_decay);
  check_arg(!o.nesterov || (o.momentum > 0 && o.dampening == 0), name(),
            "Nesterov momentum needs a momentum and no dampening: ", o.momentum, " and ",
            o.dampening);
  RuleOptimizer::add_group(group.params, o.lr, o.param_update, o.state_dtype);
  options_.push_back(o);
}

Sgd::GroupRule Sgd::rule_of(std::size_t group) const {
  const SgdOptions& o = options_[group];
  const Factors factors(
      rules::Sgd<true, false>::Factors{.lr = static_cast<float>(lr(group)),
                                       .momentum = static_cast<float>(o.momentum),
                                       .weight_decay = static_cast<float>(o.weight_decay)});
  if (o.momentum == 0) return {&kRuleOf<rules::Sgd<false, false>>, factors};
  return {o.nesterov ? &kRuleOf<rules::Sgd<true, true>> : &kRuleOf<rules::Sgd<true, false>>,
          factors};
}

// Nothing was gathered before the first step: the momentum becomes the gradient, undampened.
Sgd::Own Sgd::own_of(std::size_t group, const Turn& turn) const {
  const double intake = turn.is_new ? 1 : 1 - options_[group].dampening;
  return Own(rules::Sgd<true, false>::Own{.intake = static_cast<float>(intake)});
}

}  // namespace mezzo::optim
