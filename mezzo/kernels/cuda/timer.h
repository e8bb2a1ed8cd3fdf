// Times of work on a card, by events.
#pragma once

#include <memory>

#include <cuda_runtime_api.h>

#include "mezzo/core/device_backend.h"

namespace mezzo::kernels::cuda {

// Keeps a stream busy for some 30 microseconds, in which the host queues what is to be timed: a
// card that waits for its host between two events would have the wait counted.
void queue_head_start(cudaStream_t stream);

std::unique_ptr<DeviceTimer> start_timer(Device device);

}  // namespace mezzo::kernels::cuda
