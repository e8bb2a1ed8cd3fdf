#include "mezzo/optim/rmsprop.h"

#include <cmath>

namespace mezzo::optim {

RmsProp::RmsProp(std::vector<Tensor> params, RmsPropOptions options)
    : RmsProp(std::vector<Group<RmsPropOptions>>{{std::move(params), std::move(options)}}) {}

RmsProp::RmsProp(const std::vector<Group<RmsPropOptions>>& groups)
    : RuleOptimizer("RMSprop", kRuleOf<rules::RmsProp<true, true>>) {
  for (const Group<RmsPropOptions>& group : groups) add_group(group);
}

void RmsProp::add_group(const Group<RmsPropOptions>& group) {
  const RmsPropOptions& o = group.options;
  check_arg(std::isfinite(o.lr.lowest() + o.eps + o.weight_decay + o.momentum), name(),
            "options must be finite: lr ", o.lr.lowest(), ", eps ", o.eps, ", weight_decay ",
            o.weight_decay, ", momentum ", o.momentum);
  check_arg(o.lr.lowest() >= 0 && o.eps >= 0 && o.weight_decay >= 0 && o.momentum >= 0, name(),
            "options must not be negative: lr ", o.lr.lowest(), ", eps ", o.eps, ", weight_decay ",
            o.weight_decay, ", momentum ", o.momentum);
  check_arg(o.alpha >= 0 && o.alpha < 1, name(), "alpha must be in [0, 1): ", o.alpha);
  // Where gradients differ little, the variance is a small difference of the two averages. Rounded
  // to bf16 or e4m3 they may be equal: the step would be divided by eps alone.
  check_arg(!o.centered || o.state_dtype == DType::kF32, name(),
            "the variance of centered averages would be lost in ", o.state_dtype,
            ", in which neighbours are too far apart. Use state_dtype f32, or centered = false");
  RuleOptimizer::add_group(group.params, o.lr, o.param_update, o.state_dtype);
  options_.push_back(o);
}

namespace {

const UpdateRule& variant_of(const RmsPropOptions& o) {
  if (o.centered) {
    return o.momentum > 0 ? kRuleOf<rules::RmsProp<true, true>>
                          : kRuleOf<rules::RmsProp<true, false>>;
  }
  return o.momentum > 0 ? kRuleOf<rules::RmsProp<false, true>>
                        : kRuleOf<rules::RmsProp<false, false>>;
}

}  // namespace

RmsProp::GroupRule RmsProp::rule_of(std::size_t group) const {
  const RmsPropOptions& o = options_[group];
  // With an epsilon that does not hide the root of the smallest average, 1e-19, averages are what
  // the step is made of.
  const float least = o.eps >= 1e-10 ? flat::kLeastState : 0;
  return {&variant_of(o), Factors(rules::RmsProp<true, true>::Factors{
                              .lr = static_cast<float>(lr(group)),
                              .alpha = static_cast<float>(o.alpha),
                              .one_minus_alpha = static_cast<float>(1 - o.alpha),
                              .eps = static_cast<float>(o.eps),
                              .weight_decay = static_cast<float>(o.weight_decay),
                              .momentum = static_cast<float>(o.momentum),
                              .least = least})};
}

}  // namespace mezzo::optim
