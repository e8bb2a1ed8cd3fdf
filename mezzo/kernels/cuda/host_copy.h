// Copies from the host to a card.
#pragma once

#include <cstddef>
#include <memory>

#include "mezzo/core/device_backend.h"
#include "mezzo/kernels/cuda/pinned.h"

namespace mezzo::kernels::cuda {

// In the calling thread's stream.
void copy_from_host(PinnedPool& pinned, void* to, const void* from, std::size_t bytes,
                    Device device);

// In its stream for copies, behind what is in the other by now.
std::unique_ptr<DeviceCopy> begin_copy_from_host(PinnedPool& pinned, void* to, const void* from,
                                                 std::size_t bytes, Device device);

}  // namespace mezzo::kernels::cuda
