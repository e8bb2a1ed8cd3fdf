// What runs on the emulated card, in which order.
#pragma once

#include <functional>
#include <mutex>

#include <cuda_runtime_api.h>

namespace mezzo::emulated_card {

// Queues work in a stream, or adds it to the graph that the stream is recorded into. It runs when
// the host waits for it and no sooner, as on a card that is far behind: whatever the host changes
// or reads too early then makes a difference. Memory of the card is accessible within it, and
// nowhere else. Fails like a launch in a stream whose recording has been broken.
cudaError_t queue(cudaStream_t stream, std::function<void()> work);

// Runs what is queued in the stream, or in all of them.
void run_queued(cudaStream_t stream);
void run_all_queued();

// For calls that may wait for the card: what the calling thread records is broken by them, unless
// it has asked for cudaStreamCaptureModeRelaxed.
cudaError_t check_may_wait();

// As if a kernel had failed: calls that may wait fail so from now on. For tests, which take it
// back.
void set_failure(cudaError_t error);

// Held by every call of the run time, and while work runs.
std::recursive_mutex& machine();

}  // namespace mezzo::emulated_card
