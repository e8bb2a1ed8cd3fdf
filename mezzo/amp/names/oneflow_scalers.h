// OneFlow's scalers.
#pragma once

#include <cstdint>

#include "mezzo/amp/grad_scaler.h"

namespace mezzo::amp {

// OneFlow's GradScaler: the scale is clamped between 1 and the largest f32. Throws ArgumentError
// unless backoff_factor is 1 / growth_factor.
GradScaler oneflow_grad_scaler(double init_scale = 65536, double growth_factor = 2,
                               double backoff_factor = 0.5, std::int64_t growth_interval = 2000);
// OneFlow's StaticGradScaler: the scale is fixed, and nothing is checked or skipped.
GradScaler static_grad_scaler(double scale_factor);

}  // namespace mezzo::amp
