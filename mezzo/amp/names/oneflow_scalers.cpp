#include "mezzo/amp/names/oneflow_scalers.h"

#include "mezzo/amp/names/loss_scale_manager.h"

namespace mezzo::amp {

GradScaler oneflow_grad_scaler(double init_scale, double growth_factor, double backoff_factor,
                               std::int64_t growth_interval) {
  check_arg(backoff_factor == 1 / growth_factor, "oneflow_grad_scaler",
            "backoff_factor must be 1 / growth_factor, they are ", backoff_factor, " and ",
            growth_factor);
  LossScaleOptions options = loss_scale_preset("oneflow");
  options.init_scale = init_scale;
  options.growth_factor = growth_factor;
  options.backoff_factor = backoff_factor;
  options.growth_interval = growth_interval;
  return GradScaler(options);
}

GradScaler static_grad_scaler(double scale_factor) {
  return GradScaler(LossScaleManager(fixed_loss_scale(scale_factor), false));
}

}  // namespace mezzo::amp
