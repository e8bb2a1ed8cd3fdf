// The back end through which mezzo/core uses NVIDIA GPUs.
#pragma once

#include "mezzo/core/device_backend.h"

namespace mezzo::kernels::cuda {

// The CUDA back end, for the registry's table.
DeviceBackend& backend();

}  // namespace mezzo::kernels::cuda
