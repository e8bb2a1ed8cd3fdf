#include "mezzo/train/monitored.h"

#include "mezzo/train/model.h"

namespace mezzo::train {

void Monitored::check(const FitState& state, const char* op) const {
  check_arg(state.has_validation, op, "`", name,
            "` is a metric of the validation, and there is none. Give FitOptions one");
  static_cast<void>(state.model.metric(name));
}

void Monitored::settle(const FitState& state, const char* op) {
  check(state, op);
  const Metric& metric = state.model.metric(name);
  name = metric.name();
  if (!prefers_low.has_value()) prefers_low = metric.prefers_low();
}

}  // namespace mezzo::train
