#include "mezzo/optim/queued_step.h"

#include <algorithm>
#include <utility>

#include "mezzo/ops/dispatcher/grad_mode.h"

namespace mezzo::optim {
namespace {

// Calls `use` with the queue of a group that has gradients.
template <class Use>
void visit_queue(auto& queue, const Use& use) {
  if (auto* sgd = std::get_if<QueuedSgd>(&queue)) use(*sgd);
  if (auto* adam = std::get_if<QueuedAdam>(&queue)) use(*adam);
}

}  // namespace

bool QueuedStep::fits(const Optimizer& optimizer) {
  const std::vector<Tensor>& params = optimizer.params();
  return !params.empty() && std::ranges::all_of(params, [&](const Tensor& param) {
    const bool is_laid_out = !param.grad().defined() || param.grad().is_dense(param.format());
    return is_laid_out && param.device() == params.front().device();
  });
}

std::optional<RandomPosition> QueuedStep::position() const {
  const std::optional<Generator>& rounding = optimizer_.rounding_;
  return rounding.has_value() ? std::optional(rounding->position()) : std::nullopt;
}

void QueuedStep::prepare(double inv_scale) {
  optimizer_.check_captured(params_);
  take_back();
  try {
    put(inv_scale);
  } catch (...) {
    made_ = std::exchange(optimizer_.made_, {});
    rounding_behind_ = position();
    take_back();
    throw;
  }
}

void QueuedStep::put(double inv_scale) {
  const NoGrad guard;
  queues_.resize(optimizer_.groups());
  is_active_.assign(optimizer_.groups(), false);
  rounding_before_ = position();
  active_ = optimizer_.begin_step();
  for (std::size_t g = 0; g < active_.size(); ++g) {
    if (active_[g].empty()) continue;
    optimizer_.update(g, active_[g], inv_scale, &queues_[g]);
    is_active_[g] = true;
  }
  made_ = std::exchange(optimizer_.made_, {});
  rounding_behind_ = position();
}

void QueuedStep::take_back() {
  Optimizer::take_back(made_);
  if (rounding_before_.has_value() && position() == rounding_behind_) {
    optimizer_.rounding_->set_position(*rounding_before_);
  }
  for (UpdateQueue& queue : queues_) {
    visit_queue(queue, [](auto& queued) { queued.drop(); });
  }
  made_.clear();
  active_.clear();
  rounding_before_.reset();
  rounding_behind_.reset();
}

void QueuedStep::queue(const UpdateConditions& conditions) const {
  for (std::size_t g = 0; g < queues_.size(); ++g) {
    if (!is_active_[g]) continue;
    visit_queue(queues_[g], [&](const auto& queued) { queued.queue(conditions); });
  }
}

void QueuedStep::finish(bool done) {
  if (done) {
    for (std::size_t g = 0; g < queues_.size(); ++g) {
      if (is_active_[g]) visit_queue(queues_[g], [](auto& queued) { queued.keep(); });
    }
    optimizer_.count_steps(active_);
    made_.clear();
    rounding_before_.reset();
  }
  take_back();
}

bool QueuedStep::has_gradients() const {
  return std::ranges::any_of(is_active_, [](bool is_active) { return is_active; });
}

}  // namespace mezzo::optim
