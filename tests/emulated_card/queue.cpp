#include "tests/emulated_card/queue.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <deque>
#include <thread>
#include <utility>
#include <vector>

#include "tests/emulated_card/memory.h"

using Work = std::function<void()>;
using Clock = std::chrono::steady_clock;

using mezzo::emulated_card::current_card;

// The types that the CUDA runtime's header declares.
struct CUgraph_st {
  std::vector<Work> work;
};

struct CUgraphExec_st {
  std::vector<Work> work;
};

struct CUstream_st {
  std::deque<Work> queued;
  std::int64_t accepted = 0;  // number of tasks queued so far; the next counts those that ran
  std::int64_t done = 0;
  int card = current_card();  // of the thread that created it
  // While a recording is in progress:
  cudaGraph_t graph = nullptr;
  std::thread::id recorder{};
  cudaStreamCaptureMode mode{};
  bool is_broken = false;
};

struct CUevent_st {
  int card = current_card();      // of the thread that created it
  cudaStream_t stream = nullptr;  // the stream of the last recording, and the work before it
  std::int64_t behind = 0;
  bool is_recorded_in_graph = false;
  Clock::time_point time{};
  int pending = 0;  // number of times it is queued
  bool is_destroyed = false;
};

namespace mezzo::emulated_card {
namespace {

thread_local cudaStreamCaptureMode thread_mode = cudaStreamCaptureModeGlobal;

cudaError_t failure = cudaSuccess;

std::vector<cudaStream_t>& streams() {
  static auto* all = new std::vector<cudaStream_t>;
  return *all;
}

cudaError_t break_recording(cudaStream_t stream, cudaError_t error) {
  stream->is_broken = true;
  return error;
}

}  // namespace

std::recursive_mutex& machine() {
  static auto* mutex = new std::recursive_mutex;
  return *mutex;
}

cudaError_t queue(cudaStream_t stream, Work work) {
  const std::lock_guard lock(machine());
  if (stream == nullptr) return cudaErrorInvalidValue;  // mezzo never uses the default stream
  if (stream->graph != nullptr) {
    if (stream->is_broken) return cudaErrorStreamCaptureInvalidated;
    stream->graph->work.push_back(std::move(work));
    return cudaSuccess;
  }
  stream->queued.push_back(std::move(work));
  ++stream->accepted;
  return cudaSuccess;
}

void run_up_to(cudaStream_t stream, std::int64_t end) {
  const Access access;
  while (stream->done < end) {
    const Work work = std::move(stream->queued.front());
    stream->queued.pop_front();
    work();
    ++stream->done;
  }
}

std::int64_t end_of(cudaStream_t stream) { return stream->accepted; }

int card_of(cudaStream_t stream) { return stream->card; }

void run_queued(cudaStream_t stream) { run_up_to(stream, stream->accepted); }

void run_all_queued() {
  for (cudaStream_t stream : streams()) run_queued(stream);
}

void set_failure(cudaError_t error) {
  const std::lock_guard lock(machine());
  failure = error;
}

cudaError_t check_may_wait() {
  if (failure != cudaSuccess) return failure;
  if (thread_mode == cudaStreamCaptureModeRelaxed) return cudaSuccess;
  for (cudaStream_t stream : streams()) {
    if (stream->graph == nullptr || stream->mode == cudaStreamCaptureModeRelaxed) continue;
    const bool is_own = stream->recorder == std::this_thread::get_id();
    const bool is_everybodys =
        stream->mode == cudaStreamCaptureModeGlobal && thread_mode == cudaStreamCaptureModeGlobal;
    if (is_own || is_everybodys) return break_recording(stream, cudaErrorStreamCaptureUnsupported);
  }
  return cudaSuccess;
}

}  // namespace mezzo::emulated_card

using namespace mezzo::emulated_card;  // NOLINT(google-build-using-namespace): the card's own calls

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned /*flags*/) {
  const std::lock_guard lock(machine());
  *stream = new CUstream_st;
  streams().push_back(*stream);
  return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  const std::lock_guard lock(machine());
  if (stream->graph != nullptr) return break_recording(stream, cudaErrorStreamCaptureUnsupported);
  if (const cudaError_t error = check_may_wait(); error != cudaSuccess) return error;
  run_queued(stream);
  return cudaSuccess;
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned /*flags*/) {
  const std::lock_guard lock(machine());
  // Waiting for a recorded event joins the stream to that recording, and an event from outside
  // cannot be part of it. mezzo does neither.
  if (stream->graph != nullptr) return break_recording(stream, cudaErrorStreamCaptureIsolation);
  if (event->is_recorded_in_graph) return cudaErrorStreamCaptureIsolation;
  if (event->stream == nullptr) return cudaSuccess;  // never recorded: nothing to wait for
  return queue(stream,
               [other = event->stream, behind = event->behind] { run_up_to(other, behind); });
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode) {
  const std::lock_guard lock(machine());
  if (stream->graph != nullptr) return cudaErrorIllegalState;
  stream->graph = new CUgraph_st;
  stream->recorder = std::this_thread::get_id();
  stream->mode = mode;
  stream->is_broken = false;
  return cudaSuccess;
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  const std::lock_guard lock(machine());
  *graph = nullptr;
  if (stream->graph == nullptr) return cudaErrorIllegalState;
  if (stream->recorder != std::this_thread::get_id() &&
      stream->mode != cudaStreamCaptureModeRelaxed) {
    return cudaErrorStreamCaptureWrongThread;
  }
  cudaGraph_t made = std::exchange(stream->graph, nullptr);
  if (stream->is_broken) {
    delete made;
    return cudaErrorStreamCaptureInvalidated;
  }
  *graph = made;
  return cudaSuccess;
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  const std::lock_guard lock(machine());
  *status = stream->graph == nullptr ? cudaStreamCaptureStatusNone
            : stream->is_broken      ? cudaStreamCaptureStatusInvalidated
                                     : cudaStreamCaptureStatusActive;
  return cudaSuccess;
}

cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  std::swap(thread_mode, *mode);
  return cudaSuccess;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* executable, cudaGraph_t graph,
                                 unsigned long long /*flags*/) {
  if (graph == nullptr) return cudaErrorInvalidValue;
  *executable = new CUgraphExec_st{graph->work};
  return cudaSuccess;
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t stream) {
  for (const Work& work : executable->work) {
    if (const cudaError_t error = queue(stream, work); error != cudaSuccess) return error;
  }
  return cudaSuccess;
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  delete graph;
  return cudaSuccess;
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable) {
  delete executable;
  return cudaSuccess;
}

cudaError_t cudaEventCreate(cudaEvent_t* event) {
  *event = new CUevent_st;
  return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned /*flags*/) {
  return cudaEventCreate(event);
}

// Queued work may still write the event's time.
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  const std::lock_guard lock(machine());
  event->is_destroyed = true;
  if (event->pending == 0) delete event;
  return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  const std::lock_guard lock(machine());
  if (event->card != stream->card) return cudaErrorInvalidResourceHandle;
  event->is_recorded_in_graph = stream->graph != nullptr;
  if (event->is_recorded_in_graph)
    return stream->is_broken ? cudaErrorStreamCaptureInvalidated : cudaSuccess;
  ++event->pending;
  event->stream = stream;
  event->behind = stream->accepted + 1;
  return queue(stream, [event] {
    event->time = Clock::now();
    if (--event->pending == 0 && event->is_destroyed) delete event;
  });
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
  const std::lock_guard lock(machine());
  if (event->is_recorded_in_graph) return cudaErrorCapturedEvent;
  if (const cudaError_t error = check_may_wait(); error != cudaSuccess) return error;
  const bool is_done = event->stream == nullptr || event->stream->done >= event->behind;
  return is_done ? cudaSuccess : cudaErrorNotReady;
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  const std::lock_guard lock(machine());
  if (event->is_recorded_in_graph) return cudaErrorCapturedEvent;
  if (const cudaError_t error = check_may_wait(); error != cudaSuccess) return error;
  if (event->stream != nullptr) run_up_to(event->stream, event->behind);
  return cudaSuccess;
}

cudaError_t cudaEventElapsedTime(float* ms, cudaEvent_t start, cudaEvent_t end) {
  for (const cudaEvent_t event : {start, end}) {
    if (event->stream == nullptr) return cudaErrorInvalidResourceHandle;
    if (const cudaError_t done = cudaEventQuery(event); done != cudaSuccess) return done;
  }
  *ms = std::chrono::duration<float, std::milli>(end->time - start->time).count();
  return cudaSuccess;
}
