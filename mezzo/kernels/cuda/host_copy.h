// Copies from the host to a GPU.
#pragma once

#include <cstddef>
#include <memory>

#include "mezzo/core/device_backend.h"
#include "mezzo/kernels/cuda/pinned.h"

namespace mezzo::kernels::cuda {

// Copies in the calling thread's stream.
void copy_from_host(PinnedPool& pinned, void* to, const void* from, std::size_t bytes,
                    Device device);

// Copies in the thread's copy stream, after the work that is already queued in the other stream.
std::unique_ptr<DeviceCopy> begin_copy_from_host(PinnedPool& pinned, void* to, const void* from,
                                                 std::size_t bytes, Device device);

}  // namespace mezzo::kernels::cuda
