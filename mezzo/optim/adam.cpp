#include "mezzo/optim/adam.h"

#include <cmath>

namespace mezzo::optim {
namespace {

Group<AdamOptions> adam_group(const Group<AdamWOptions>& group) {
  const AdamWOptions& o = group.options;
  return {group.params,
          {o.lr, o.beta1, o.beta2, o.eps, o.weight_decay, o.param_update, o.state_dtype}};
}

}  // namespace

Adam::Adam(std::vector<Tensor> params, AdamOptions options)
    : Adam(std::vector<Group<AdamOptions>>{{std::move(params), std::move(options)}}) {}

Adam::Adam(const std::vector<Group<AdamOptions>>& groups) : Adam("Adam", groups, false) {}

Adam::Adam(const char* name, const std::vector<Group<AdamOptions>>& groups, bool decoupled)
    : RuleOptimizer(name, kRuleOf<rules::Adam<false>>, Steps::kCounted), decoupled_(decoupled) {
  for (const Group<AdamOptions>& group : groups) add_group(group);
}

void Adam::add_group(const Group<AdamOptions>& group) {
  const AdamOptions& o = group.options;
  check_arg(std::isfinite(o.lr.lowest() + o.eps + o.weight_decay), name(),
            "options must be finite: lr ", o.lr.lowest(), ", eps ", o.eps, ", weight_decay ",
            o.weight_decay);
  check_arg(o.lr.lowest() >= 0 && o.eps >= 0 && o.weight_decay >= 0, name(),
            "options must not be negative: lr ", o.lr.lowest(), ", eps ", o.eps, ", weight_decay ",
            o.weight_decay);
  check_arg(o.beta1 >= 0 && o.beta1 < 1 && o.beta2 >= 0 && o.beta2 < 1, name(),
            "betas must be in [0, 1): ", o.beta1, " and ", o.beta2);
  RuleOptimizer::add_group(group.params, o.lr, o.param_update, o.state_dtype);
  options_.push_back(o);
}

namespace {

// Moments below flat::kLeastState become zero; but with an epsilon that does not hide the root of
// such a second moment, 1e-19, all of them stay: they are what the step is made of then.
float least_moment(double eps) { return eps >= 1e-10 ? flat::kLeastState : 0; }

template <bool kFromGrad>
rules::Adam<false>::Factors factors_of(const AdamOptions& o, double lr, bool decoupled) {
  return {.way = static_cast<float>(kFromGrad ? o.beta1 : 1 - o.beta1),
          .beta2 = static_cast<float>(o.beta2),
          .one_minus_beta2 = static_cast<float>(1 - o.beta2),
          .eps = static_cast<float>(o.eps),
          .least = least_moment(o.eps),
          .weight_decay = static_cast<float>(decoupled ? 0 : o.weight_decay),
          .shrink = static_cast<float>(decoupled ? 1 - lr * o.weight_decay : 1)};
}

}  // namespace

Adam::GroupRule Adam::rule_of(std::size_t group) const {
  const AdamOptions& o = options_[group];
  // The first moment begins at the nearer one of the old moment and the gradient.
  if (o.beta1 <= 0.5) {
    return {&kRuleOf<rules::Adam<true>>, Factors(factors_of<true>(o, lr(group), decoupled_))};
  }
  return {&kRuleOf<rules::Adam<false>>, Factors(factors_of<false>(o, lr(group), decoupled_))};
}

Adam::Own Adam::own_of(std::size_t group, const Turn& turn) const {
  const AdamOptions& o = options_[group];
  // In f64: 1 - 0.999 in f32 is off by 1e-5, the size of the correction itself late in training.
  const auto n = static_cast<double>(turn.step);
  return Own(rules::Adam<false>::Own{
      .step_size = static_cast<float>(lr(group) / (1 - std::pow(o.beta1, n))),
      .correction = static_cast<float>(1 / std::sqrt(1 - std::pow(o.beta2, n)))});
}

AdamW::AdamW(std::vector<Tensor> params, AdamWOptions options)
    : AdamW(std::vector<Group<AdamWOptions>>{{std::move(params), std::move(options)}}) {}

AdamW::AdamW(const std::vector<Group<AdamWOptions>>& groups) : Adam("AdamW", {}, true) {
  for (const Group<AdamWOptions>& group : groups) add_group(group);
}

void AdamW::add_group(const Group<AdamWOptions>& group) { Adam::add_group(adam_group(group)); }

}  // namespace mezzo::optim
