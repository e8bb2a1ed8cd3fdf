#include "mezzo/optim/rule_optimizer.h"

#include <algorithm>
#include <string>

namespace mezzo::optim {

RuleOptimizer::RuleOptimizer(const char* name, const UpdateRule& most, Steps steps)
    : Optimizer(name),
      slot_names_(most.slot_names),
      slot_count_(most.slots),
      counts_steps_(steps) {}

// add_group() of the base may have been called since the last step.
void RuleOptimizer::grow() {
  slots_.resize(params().size());
  steps_.resize(params().size());
}

std::size_t RuleOptimizer::slot_named(const char* slot_name) const {
  const auto is_it = [=](const char* other) { return std::string_view(other) == slot_name; };
  const auto end = slot_names_.begin() + static_cast<std::ptrdiff_t>(slot_count_);
  const auto found = std::find_if(slot_names_.begin(), end, is_it);
  check_arg(found != end, name(), "its rule has the slot `", slot_name,
            "`, which the rule that it was created with does not have. Create it with the rule "
            "that has the most slots");
  return static_cast<std::size_t>(found - slot_names_.begin());
}

void RuleOptimizer::update(std::size_t group, const std::vector<Active>& active, double inv_scale,
                           UpdateQueue* queue) {
  grow();
  const GroupRule rule = rule_of(group);
  std::array<std::size_t, flat::kMostSlots> places{};  // of the rule's slots among all of them
  for (std::size_t k = 0; k < rule.rule->slots; ++k) {
    places[k] = slot_named(rule.rule->slot_names[k]);
  }
  std::vector<UpdateTensors> tensors;
  tensors.reserve(active.size());
  for (const Active& a : active) {
    const std::size_t i = a.index;
    UpdateTensors& t = tensors.emplace_back(UpdateTensors{.param = params()[i], .grad = a.grad});
    const bool is_new = !slots_[i][places[0]].defined();
    for (std::size_t k = 0; k < rule.rule->slots; ++k) {
      t.slots[k] = ensure(slots_[i][places[k]], [&] { return zeros_like(i); });
    }
    t.own = own_of(group, {.step = steps_[i] + 1, .is_new = is_new});
    t.half = half_update(i);
  }
  const UpdateStep step{rule.rule, rule.factors, inv_scale};
  if (queue == nullptr) return update_step(tensors, step);
  put(*queue, params_in(group), tensors, step);
}

void RuleOptimizer::count_step(const std::vector<Active>& active) {
  if (counts_steps_ == Steps::kNotCounted) return;
  for (const Active& a : active) ++steps_[a.index];
}

std::vector<NamedTensor> RuleOptimizer::state() const {
  std::vector<NamedTensor> result;
  for (std::size_t k = 0; k < slot_count_; ++k) {
    for (std::size_t i = 0; i < slots_.size(); ++i) {
      if (slots_[i][k].defined()) result.push_back({concat(slot_names_[k], ".", i), slots_[i][k]});
    }
  }
  append_half_state(result);
  return result;
}

std::vector<NamedCounter> RuleOptimizer::counters() const {
  std::vector<NamedCounter> result;
  for (std::size_t i = 0; i < steps_.size(); ++i) {
    if (steps_[i] > 0) result.push_back({concat("step.", i), steps_[i]});
  }
  append_shared_counters(result);
  return result;
}

std::size_t RuleOptimizer::slot_of(std::string_view state_name) const {
  for (std::size_t k = 0; k < slot_count_; ++k) {
    if (state_name.starts_with(concat(slot_names_[k], "."))) return k;
  }
  return 0;
}

void RuleOptimizer::set_state(std::string_view state_name, const Tensor& tensor) {
  if (set_half_state(state_name, tensor)) return;
  check_arg(slot_count_ > 0, name(), "has no state called `", state_name, "`. Leave it out");
  grow();
  const std::size_t k = slot_of(state_name);
  const std::size_t i = index_in(state_name, slot_names_[k]);
  assign(slots_[i][k], i, state_name, tensor);
}

void RuleOptimizer::set_counter(std::string_view counter_name, std::int64_t value) {
  if (set_shared_counter(counter_name, value)) return;
  check_arg(counts_steps_ == Steps::kCounted, name(), "has no counter called `", counter_name,
            "`. Leave it out");
  grow();
  const std::size_t i = index_in(counter_name, "step");
  check_arg(value >= 0, name(), "the counter `", counter_name, "` must not be negative: ", value);
  steps_[i] = value;
}

void RuleOptimizer::clear_state() {
  clear_shared_state();
  for (Slots& slots : slots_) slots = {};
  std::ranges::fill(steps_, 0);
}

}  // namespace mezzo::optim
