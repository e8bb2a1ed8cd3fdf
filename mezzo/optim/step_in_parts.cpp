#include "mezzo/optim/step_in_parts.h"

#include <algorithm>
#include <utility>

#include "mezzo/ops/dispatcher/grad_mode.h"

namespace mezzo::optim {

StepInParts::StepInParts(const std::vector<Optimizer*>& optimizers) {
  std::size_t first = 0;
  for (Optimizer* optimizer : optimizers) {
    const std::size_t count = optimizer->params().size();
    parts_.push_back({.optimizer = optimizer, .first = first, .count = count, .done = {}});
    first += count;
  }
}

bool StepInParts::fits(const Optimizer& optimizer) {
  if (optimizer.rounding_.has_value()) return false;
  for (std::size_t i = 0; i < optimizer.params().size(); ++i) {
    const Tensor& grad = optimizer.params()[i].grad();
    if (grad.defined() && !optimizer.can_take(i, grad)) return false;
  }
  return true;
}

std::vector<Tensor> StepInParts::params() const {
  std::vector<Tensor> params;
  for (const Part& part : parts_) {
    const std::vector<Tensor>& more = part.optimizer->params();
    params.insert(params.end(), more.begin(), more.end());
  }
  return params;
}

std::vector<Tensor> StepInParts::state() const {
  std::vector<Tensor> state;
  for (const Part& part : parts_) {
    for (NamedTensor& entry : part.optimizer->state()) state.push_back(std::move(entry.tensor));
  }
  return state;
}

void StepInParts::begin(double inv_scale) {
  const NoGrad guard;
  inv_scale_ = inv_scale;
  for (Part& part : parts_) {
    part.optimizer->check_captured(part.count);
    part.done.assign(part.optimizer->groups(), {});
    part.optimizer->follow_parameters();
    part.optimizer->made_.clear();
  }
}

void StepInParts::step(std::span<const std::size_t> params) {
  const NoGrad guard;
  for (Part& part : parts_) {
    std::vector<std::size_t> own;
    for (const std::size_t i : params) {
      const bool is_own = i >= part.first && i - part.first < part.count;
      if (is_own) own.push_back(i - part.first);
    }
    step_one(part, own);
  }
}

void StepInParts::step_one(Part& part, std::span<const std::size_t> params) const {
  Optimizer& optimizer = *part.optimizer;
  Optimizer::ActiveGroups active(optimizer.groups());
  for (const std::size_t i : params) {
    if (!optimizer.params()[i].grad().defined()) continue;
    active[optimizer.group_of(i)].push_back(optimizer.active_at(i));
  }
  for (std::size_t g = 0; g < active.size(); ++g) {
    if (active[g].empty()) continue;
    optimizer.update_group(g, active[g], inv_scale_);
    // Remembered for counting the step at the end; the gradients' memory is freed now.
    for (const Optimizer::Active& a : active[g]) part.done[g].push_back({a.index, Tensor()});
  }
}

std::vector<bool> StepInParts::finish() {
  std::vector<bool> had_gradients;
  for (Part& part : parts_) {
    had_gradients.push_back(
        std::ranges::any_of(part.done, [](const auto& group) { return !group.empty(); }));
    part.optimizer->count_steps(part.done);
    part.done.clear();
  }
  return had_gradients;
}

}  // namespace mezzo::optim
