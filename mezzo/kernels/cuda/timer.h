// Timing of work on a GPU, by events.
#pragma once

#include <memory>

#include <cuda_runtime_api.h>

#include "mezzo/core/device_backend.h"

namespace mezzo::kernels::cuda {

// Keeps a stream busy for some 30 microseconds, in which the host queues the work to be timed.
// Otherwise the time that the GPU waits for the host would be counted.
void queue_head_start(cudaStream_t stream);

std::unique_ptr<DeviceTimer> start_timer(Device device);

}  // namespace mezzo::kernels::cuda
