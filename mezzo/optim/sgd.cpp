#include "mezzo/optim/sgd.h"

#include <algorithm>
#include <cmath>

#include "mezzo/ops/update/optimizer_steps.h"

namespace mezzo::optim {

Sgd::Sgd(std::vector<Tensor> params, SgdOptions options)
    : Sgd(std::vector<Group<SgdOptions>>{{std::move(params), std::move(options)}}) {}

Sgd::Sgd(const std::vector<Group<SgdOptions>>& groups) : Optimizer("Sgd") {
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
  Optimizer::add_group(group.params, o.lr, o.param_update);
  options_.push_back(o);
  momentum_.resize(params().size());
}

void Sgd::update(std::size_t group, const std::vector<Active>& active, double inv_scale,
                 UpdateQueue* queue) {
  const SgdOptions& o = options_[group];
  std::vector<SgdTensors> tensors;
  tensors.reserve(active.size());
  for (const Active& a : active) {
    Tensor& momentum = momentum_[a.index];
    const bool first = !momentum.defined();
    if (o.momentum != 0) ensure(momentum, [&] { return zeros_like(a.index); });
    tensors.push_back({params()[a.index], a.grad, momentum, first, half_update(a.index)});
  }
  const SgdStep step{lr(group), o.momentum, o.dampening, o.weight_decay, o.nesterov, inv_scale};
  if (queue != nullptr) return put(*queue, params_in(group), tensors, step);
  sgd_step(tensors, step);
}

std::vector<NamedTensor> Sgd::state() const {
  std::vector<NamedTensor> result;
  append_state(result, "momentum", momentum_);
  append_half_state(result);
  return result;
}

std::vector<NamedCounter> Sgd::counters() const {
  std::vector<NamedCounter> result;
  append_shared_counters(result);
  return result;
}

void Sgd::set_state(std::string_view state_name, const Tensor& tensor) {
  if (set_half_state(state_name, tensor)) return;
  const std::size_t i = index_in(state_name, "momentum");
  assign(momentum_[i], i, state_name, tensor);
}

void Sgd::set_counter(std::string_view counter_name, std::int64_t value) {
  if (set_shared_counter(counter_name, value)) return;
  fail(name(), "has no counter called `", counter_name, "`. Leave it out");
}

void Sgd::clear_state() {
  clear_shared_state();
  std::ranges::fill(momentum_, Tensor());
}

}  // namespace mezzo::optim
