// The update of a training step whose optimizer is shared by processes.
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "mezzo/amp/train_step.h"
#include "mezzo/ops/dispatcher/call_listener.h"
#include "mezzo/ops/update/multi_tensor.h"
#include "mezzo/optim/gradients.h"
#include "mezzo/optim/own_gradients.h"
#include "mezzo/optim/sharded.h"

namespace mezzo::amp {
namespace {

constexpr double kNoneBad = std::numeric_limits<double>::infinity();

// What the processes find out about the gradients of their parts.
struct Findings {
  double first_bad = kNoneBad;  // the index of the first parameter with one that is not finite
  double squares = 0;           // the sum of their squares, if they are clipped
  double has_gradients = 0;
};

// In the order of the processes, so that all get the same bits.
Findings of_all(distributed::ProcessGroup& group, const Findings& own) {
  const double numbers[] = {own.first_bad, own.squares, own.has_gradients};
  const std::vector<double> all = distributed::gathered(group, std::span<const double>(numbers));
  Findings result;
  for (std::size_t i = 0; i < all.size(); i += std::size(numbers)) {
    result.first_bad = std::min(result.first_bad, all[i]);
    result.squares += all[i + 1];
    result.has_gradients += all[i + 2];
  }
  return result;
}

double index_or_none(std::optional<std::size_t> bad) {
  return bad.has_value() ? static_cast<double>(*bad) : kNoneBad;
}

}  // namespace

// Each process sees the gradients of its parts only. What they find is exchanged once, so that all
// of them skip, or clip to the norm of all gradients.
void TrainStep::update_sharded() {
  const WithoutCallListener not_of_the_step;
  scaler_.count_gradients(optimizer_.whole_params());
  optim::give_gradients_to_parts(optimizer_);
  const std::vector<Tensor>& parts = optimizer_.params();
  const double scale = scaler_.begin_steps(players()).front().scale;
  const bool clips = options_.max_grad_norm.has_value();
  const bool checks = scaler_.is_enabled() ? scaler_.checks_gradients() : checks_unscaled();
  // As GradScaler does: finite gradients stay finite when they are divided by a scale of at least
  // 1, and then the optimizer's own pass divides.
  const bool divides = clips || scale < 1;
  Findings own{.has_gradients = std::ranges::any_of(
                                    parts, [](const Tensor& part) { return part.grad().defined(); })
                                    ? 1.0
                                    : 0.0};
  if (divides) {
    own.first_bad = index_or_none(optim::unscale_grads(parts, 1 / scale));
  } else if (checks) {
    own.first_bad = index_or_none(optim::first_nonfinite_grad(parts));
  }
  if (clips) own.squares = sum_of_squares(optim::own_gradients_of(parts), "clip_grad_norm");
  const Findings found = of_all(*options_.processes, own);
  const double norm = std::sqrt(found.squares);
  if (clips) result_.grad_norm = norm;
  UpdateOnDevice::Outcome outcome{.first_bad = {std::nullopt}};
  const bool is_bad = checks && found.first_bad != kNoneBad;
  if (is_bad) outcome.first_bad = {static_cast<std::size_t>(found.first_bad)};
  // The norm of finite gradients may be infinite, and without loss scaling that skips, too.
  const bool norm_is_bad = clips && !scaler_.is_enabled() && !std::isfinite(norm);
  outcome.stepped = !is_bad && !norm_is_bad;
  if (outcome.stepped) {
    if (clips && std::isfinite(norm) && norm > *options_.max_grad_norm) {
      scale_in_place(optim::own_gradients_of(parts),
                     static_cast<float>(*options_.max_grad_norm / norm));
    }
    optimizer_.step(divides ? 1 : 1 / scale);
    optim::gather_params(optimizer_, *options_.processes);
  }
  StepResult step = scaler_.end_steps(players(), {found.has_gradients > 0}, outcome).front();
  step.first_bad = outcome.first_bad.front();
  step.found_inf = !outcome.stepped;
  take_result(step);
  end_update();
  // In a captured step nobody else drops what it does not know.
  optimizer_.zero_grad();
}

}  // namespace mezzo::amp
