// Records the work that a thread queues on a GPU, as a CUDA graph.
#pragma once

#include <cstddef>
#include <memory>

#include "mezzo/core/device.h"
#include "mezzo/core/work_recorder.h"

namespace mezzo::kernels::cuda {

std::unique_ptr<WorkRecorder> make_recorder(Device device);

// True while the calling thread records. Work queued then has not run, so results must not be kept
// for other calls.
bool is_recording();

// Throws UnsupportedError if the thread records. For operations that wait for the GPU, or read host
// memory that may have changed by the time of the launch.
void refuse_while_recording(const char* why);

// While a thread records, its memory comes from the recording.
void* allocate_while_recording(std::size_t bytes, Device device);
void release_while_recording(void* block, std::size_t bytes, Device device) noexcept;

}  // namespace mezzo::kernels::cuda
