#include "mezzo/optim/adam.h"

#include <algorithm>
#include <cmath>

#include "mezzo/ops/update/optimizer_steps.h"

namespace mezzo::optim {
namespace {

Group<AdamOptions> adam_group(const Group<AdamWOptions>& group) {
  const AdamWOptions& o = group.options;
  return {group.params, {o.lr, o.beta1, o.beta2, o.eps, o.weight_decay, o.param_update}};
}

}  // namespace

Adam::Adam(std::vector<Tensor> params, AdamOptions options)
    : Adam(std::vector<Group<AdamOptions>>{{std::move(params), std::move(options)}}) {}

Adam::Adam(const std::vector<Group<AdamOptions>>& groups) : Adam("Adam", groups, false) {}

Adam::Adam(const char* name, const std::vector<Group<AdamOptions>>& groups, bool decoupled)
    : Optimizer(name), decoupled_(decoupled) {
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
  Optimizer::add_group(group.params, o.lr, o.param_update);
  options_.push_back(o);
  exp_avg_.resize(params().size());
  exp_avg_sq_.resize(params().size());
  steps_.resize(params().size());
}

void Adam::update(std::size_t group, const std::vector<Active>& active, double inv_scale,
                  UpdateQueue* queue) {
  const AdamOptions& o = options_[group];
  std::vector<AdamTensors> tensors;
  tensors.reserve(active.size());
  for (const Active& a : active) {
    const std::size_t i = a.index;
    const auto make = [&] { return zeros_like(i); };
    tensors.push_back({params()[i], a.grad, ensure(exp_avg_[i], make), ensure(exp_avg_sq_[i], make),
                       steps_[i] + 1, half_update(i)});
  }
  const AdamStep step{lr(group), o.beta1, o.beta2, o.eps, o.weight_decay, decoupled_, inv_scale};
  if (queue != nullptr) return put(*queue, params_in(group), tensors, step);
  adam_step(tensors, step);
}

void Adam::count_step(const std::vector<Active>& active) {
  for (const Active& a : active) ++steps_[a.index];
}

std::vector<NamedTensor> Adam::state() const {
  std::vector<NamedTensor> result;
  append_state(result, "exp_avg", exp_avg_);
  append_state(result, "exp_avg_sq", exp_avg_sq_);
  append_half_state(result);
  return result;
}

std::vector<NamedCounter> Adam::counters() const {
  std::vector<NamedCounter> result;
  for (std::size_t i = 0; i < steps_.size(); ++i) {
    if (steps_[i] > 0) result.push_back({concat("step.", i), steps_[i]});
  }
  append_shared_counters(result);
  return result;
}

void Adam::set_state(std::string_view state_name, const Tensor& tensor) {
  if (set_half_state(state_name, tensor)) return;
  const bool squares = state_name.starts_with("exp_avg_sq.");
  const std::size_t i = index_in(state_name, squares ? "exp_avg_sq" : "exp_avg");
  assign(squares ? exp_avg_sq_[i] : exp_avg_[i], i, state_name, tensor);
}

void Adam::set_counter(std::string_view counter_name, std::int64_t value) {
  if (set_shared_counter(counter_name, value)) return;
  const std::size_t i = index_in(counter_name, "step");
  check_arg(value >= 0, name(), "the counter `", counter_name, "` must not be negative: ", value);
  steps_[i] = value;
}

void Adam::clear_state() {
  clear_shared_state();
  std::ranges::fill(exp_avg_, Tensor());
  std::ranges::fill(exp_avg_sq_, Tensor());
  steps_.assign(params().size(), 0);
}

AdamW::AdamW(std::vector<Tensor> params, AdamWOptions options)
    : AdamW(std::vector<Group<AdamWOptions>>{{std::move(params), std::move(options)}}) {}

AdamW::AdamW(const std::vector<Group<AdamWOptions>>& groups) : Adam("AdamW", {}, true) {
  for (const Group<AdamWOptions>& group : groups) add_group(group);
}

void AdamW::add_group(const Group<AdamWOptions>& group) { Adam::add_group(adam_group(group)); }

}  // namespace mezzo::optim
