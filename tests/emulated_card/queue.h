// The streams of the emulated card: which work runs in which order.
#pragma once

#include <cstdint>
#include <functional>
#include <mutex>

#include <cuda_runtime_api.h>

namespace mezzo::emulated_card {

// Queues work in a stream, or adds it to the graph into which the stream is recorded. The work runs
// when the host waits for it and no sooner, as on a very slow GPU: whatever the host changes or
// reads too early then makes a difference. Only within the work is device memory accessible. Fails
// like a launch in a stream whose recording was invalidated.
cudaError_t queue(cudaStream_t stream, std::function<void()> work);

// Runs the queued work of a stream, or of all streams.
void run_queued(cudaStream_t stream);
void run_all_queued();

// The end of what is queued in a stream so far, and a function that runs the work up to there.
std::int64_t end_of(cudaStream_t stream);
void run_up_to(cudaStream_t stream, std::int64_t end);

// The number of the card to which a stream belongs, and that of the calling thread's current card.
int card_of(cudaStream_t stream);
int current_card();
// How many cards there are: 1, or MEZZO_EMULATED_CARD_COUNT. They share one memory.
int card_count();

// For calls that may wait for the device: they invalidate the calling thread's recordings, unless
// it requested cudaStreamCaptureModeRelaxed.
cudaError_t check_may_wait();

// Simulates a failed kernel: calls that may wait fail with this error from now on. Tests reset it.
void set_failure(cudaError_t error);

// 10 times the major part of the compute capability that the card has, and the minor part. It is
// 90, Hopper's, or MEZZO_EMULATED_CARD_CAPABILITY: the libraries refuse what such a card does not
// have.
int capability();

// Held by every call of the runtime, and while work runs.
std::recursive_mutex& machine();

}  // namespace mezzo::emulated_card
