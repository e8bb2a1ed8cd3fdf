// Single updates by the rules of SGD and Adam, without an optimizer.
#pragma once

#include <cmath>
#include <span>
#include <vector>

#include "mezzo/ops/update/update_step.h"

namespace mezzo {

struct SgdTensors {
  Tensor param;
  Tensor grad;
  Tensor momentum;
  bool first = true;
  HalfUpdate half{};
};

struct SgdStep {
  double lr = 0.01;
  double momentum = 0;
  double dampening = 0;
  double weight_decay = 0;
  bool nesterov = false;
  double inv_scale = 1;
};

inline UpdateStep update_of(const SgdStep& step) {
  const rules::Sgd<true, false>::Factors factors{static_cast<float>(step.lr),
                                                 static_cast<float>(step.momentum),
                                                 static_cast<float>(step.weight_decay)};
  const UpdateRule* rule = &kRuleOf<rules::Sgd<false, false>>;
  if (step.momentum != 0) {
    rule = step.nesterov ? &kRuleOf<rules::Sgd<true, true>> : &kRuleOf<rules::Sgd<true, false>>;
  }
  return {rule, flat::RuleNumbers<flat::kMostFactors>(factors), step.inv_scale};
}

inline std::vector<UpdateTensors> updates_of(std::span<const SgdTensors> tensors,
                                             const SgdStep& step) {
  std::vector<UpdateTensors> updates;
  for (const SgdTensors& t : tensors) {
    const rules::Sgd<true, false>::Own own{static_cast<float>(t.first ? 1 : 1 - step.dampening)};
    updates.push_back({.param = t.param,
                       .grad = t.grad,
                       .slots = {t.momentum},
                       .own = flat::RuleNumbers<flat::kMostOwn>(own),
                       .half = t.half});
  }
  return updates;
}

inline void sgd_step(std::span<const SgdTensors> tensors, const SgdStep& step) {
  update_step(updates_of(tensors, step), update_of(step));
}

struct AdamTensors {
  Tensor param;
  Tensor grad;
  Tensor exp_avg;
  Tensor exp_avg_sq;
  std::int64_t step = 1;
  HalfUpdate half{};
};

struct AdamStep {
  double lr = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0;
  bool decoupled = false;
  double inv_scale = 1;
};

inline void adam_step(std::span<const AdamTensors> tensors, const AdamStep& step) {
  const bool from_grad = step.beta1 <= 0.5;
  const rules::Adam<false>::Factors factors{
      .way = static_cast<float>(from_grad ? step.beta1 : 1 - step.beta1),
      .beta2 = static_cast<float>(step.beta2),
      .one_minus_beta2 = static_cast<float>(1 - step.beta2),
      .eps = static_cast<float>(step.eps),
      .least = step.eps >= 1e-10 ? flat::kLeastState : 0,
      .weight_decay = static_cast<float>(step.decoupled ? 0 : step.weight_decay),
      .shrink = static_cast<float>(step.decoupled ? 1 - step.lr * step.weight_decay : 1)};
  std::vector<UpdateTensors> updates;
  for (const AdamTensors& t : tensors) {
    const auto n = static_cast<double>(t.step);
    const rules::Adam<false>::Own own{
        .step_size = static_cast<float>(step.lr / (1 - std::pow(step.beta1, n))),
        .correction = static_cast<float>(1 / std::sqrt(1 - std::pow(step.beta2, n)))};
    updates.push_back({.param = t.param,
                       .grad = t.grad,
                       .slots = {t.exp_avg, t.exp_avg_sq},
                       .own = flat::RuleNumbers<flat::kMostOwn>(own),
                       .half = t.half});
  }
  const UpdateRule* rule = from_grad ? &kRuleOf<rules::Adam<true>> : &kRuleOf<rules::Adam<false>>;
  update_step(updates, {rule, flat::RuleNumbers<flat::kMostFactors>(factors), step.inv_scale});
}

}  // namespace mezzo
