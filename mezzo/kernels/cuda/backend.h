// CUDA cards as mezzo/core sees them.
#pragma once

#include "mezzo/core/device_backend.h"

namespace mezzo::kernels::cuda {

// The back end of CUDA cards, in the registry's table.
DeviceBackend& backend();

}  // namespace mezzo::kernels::cuda
