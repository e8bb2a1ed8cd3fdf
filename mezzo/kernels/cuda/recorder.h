// Recording what a thread queues on a card, as a CUDA graph.
#pragma once

#include <cstddef>
#include <memory>

#include "mezzo/core/device.h"
#include "mezzo/core/work_recorder.h"

namespace mezzo::kernels::cuda {

std::unique_ptr<WorkRecorder> make_recorder(Device device);

// True while the calling thread records. What it queues then is not done yet, so nothing that it
// computes may be kept for other calls.
bool is_recording();

// Throws UnsupportedError if the thread records: for what waits for the card, or reads memory of
// the host that may be another by the time of the launch.
void refuse_while_recording(const char* why);

// While a thread records, its memory comes from the recording.
void* allocate_while_recording(std::size_t bytes, Device device);
void release_while_recording(void* block, std::size_t bytes, Device device) noexcept;

}  // namespace mezzo::kernels::cuda
