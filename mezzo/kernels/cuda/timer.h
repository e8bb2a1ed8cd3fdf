// Times of work on a card, by events.
#pragma once

#include <memory>

#include "mezzo/core/device_backend.h"

namespace mezzo::kernels::cuda {

std::unique_ptr<DeviceTimer> start_timer(Device device);

}  // namespace mezzo::kernels::cuda
