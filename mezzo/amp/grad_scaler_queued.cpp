// GradScaler's part in updates that need no host in between.

#include "mezzo/amp/grad_scaler.h"
#include "mezzo/ops/dispatcher/capture_hook.h"

namespace mezzo::amp {

bool GradScaler::queue_steps(const std::vector<UpdateOnDevice::Player>& players,
                             const TellResults& tell, const std::function<void()>& prepared) {
  if (!captures_for_recording() || statistics_ != nullptr) return false;
  if (!UpdateOnDevice::fits(players, {}, enabled_)) return false;
  std::vector<Tensor> params;
  for (const UpdateOnDevice::Player& player : players) {
    const std::vector<Tensor>& more = player.optimizer->params();
    params.insert(params.end(), more.begin(), more.end());
  }
  const UpdateOnDevice::Checks checks{.gradients = checks_gradients()};
  const auto update = std::make_shared<UpdateOnDevice>(players, 0, checks);
  do_queued_work(
      "grad_scaler.step", {}, params,
      [this, update, players, prepared] {
        update->prepare(begin_steps(players));
        if (prepared) prepared();
      },
      [update](std::span<const Tensor>) { update->queue({}); });
  const auto finish = [this, update, players, tell](std::span<const Tensor>) {
    const UpdateOnDevice::Outcome outcome = update->finish(0);
    const auto results = end_steps(players, update->has_gradients(), outcome);
    if (tell) tell(results, outcome);
    return true;
  };
  do_host_work("grad_scaler.finish_step", {}, {}, finish);
  return true;
}

std::vector<UpdateOnDevice::Carried> GradScaler::begin_steps(
    std::span<const UpdateOnDevice::Player> players) {
  std::vector<UpdateOnDevice::Carried> carried(players.size());
  if (!enabled_) return carried;
  check_scaled();
  for (std::size_t i = 0; i < players.size(); ++i) {
    const Entry* known = find(*players[i].optimizer);
    if (players[i].max_grad_norm.has_value()) check_not_unscaled(known);  // clipping happens here
    check_not_stepped(known);
    check_not_unscaled(players[i].optimizer->params());
    if (known == nullptr) {
      carried[i] = {.scale = *used_};
    } else {
      // The result of unscale_() counts, even if the gradients have changed since.
      carried[i] = {.scale = 1 / known->inv_scale, .is_bad = known->first_bad.has_value()};
    }
  }
  return carried;
}

std::vector<StepResult> GradScaler::end_steps(std::span<const UpdateOnDevice::Player> players,
                                              const std::vector<bool>& has_gradients,
                                              const UpdateOnDevice::Outcome& outcome) {
  std::vector<StepResult> results;
  for (std::size_t i = 0; i < players.size(); ++i) {
    if (!enabled_) {
      results.push_back({.stepped = has_gradients[i],
                         .nothing_to_do = !has_gradients[i],
                         .first_bad = std::nullopt});
      continue;
    }
    Entry* entry = find(*players[i].optimizer);
    if (entry == nullptr) {
      entry = &entries_.emplace_back(Entry{players[i].optimizer, Stage::kUnscaled, has_gradients[i],
                                           1 / *used_, outcome.first_bad[i]});
    }
    results.push_back(settle(*entry, !outcome.stepped));
  }
  return results;
}

}  // namespace mezzo::amp
