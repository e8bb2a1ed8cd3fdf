// Exchanges between the cards of several processes, by NCCL.
#pragma once

#include "mezzo/core/device_engine.h"

namespace mezzo::kernels::cuda {

// Makes engines of NCCL; null in builds without it. Its key is NCCL's unique identifier. The
// environment variable MEZZO_NCCL=0 makes check() throw, for systems on which NCCL fails.
const DeviceEngineMaker* engine_maker();

}  // namespace mezzo::kernels::cuda
