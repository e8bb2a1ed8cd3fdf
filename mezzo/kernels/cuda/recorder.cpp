#include "mezzo/kernels/cuda/recorder.h"

#include <utility>
#include <vector>

#include <cuda_runtime_api.h>

#include "mezzo/core/device_backend.h"
#include "mezzo/kernels/cuda/check.h"
#include "mezzo/kernels/cuda/context.h"
#include "mezzo/kernels/cuda/recording_memory.h"

namespace mezzo::kernels::cuda {
namespace {

class Graph {
 public:
  explicit Graph(cudaGraph_t graph) : graph_(graph) {}
  ~Graph() {
    if (graph_ != nullptr) static_cast<void>(cudaGraphDestroy(graph_));
  }
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  cudaGraph_t get() const { return graph_; }

 private:
  cudaGraph_t graph_;
};

class CudaRecording final : public Recording {
 public:
  CudaRecording(Device device, cudaGraph_t graph, Ref<RecordingMemory> memory)
      : device_(device), memory_(std::move(memory)) {
    MEZZO_CUDA_CHECK(cudaGraphInstantiate(&executable_, graph, 0));
  }
  // Launched work still runs to its end; the memory is handed out again only after it.
  ~CudaRecording() override { static_cast<void>(cudaGraphExecDestroy(executable_)); }

  void launch() override {
    const OnDevice on(device_);
    MEZZO_CUDA_CHECK(cudaGraphLaunch(executable_, context_of(device_).stream()));
  }

 private:
  Device device_;
  cudaGraphExec_t executable_ = nullptr;
  Ref<RecordingMemory> memory_;
};

// While this exists, the calling thread's queued work is recorded.
class Session {
 public:
  Session(Device device, RecordingMemory& memory);
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  Device device() const { return device_; }
  cudaStream_t stream() const { return stream_; }
  RecordingMemory& memory() { return memory_; }
  // Releases a block from outside of the recording after it ends: ordering the release after work
  // queued elsewhere would tie that work to the recording.
  void give_back_later(void* block, std::size_t bytes, Device device) {
    given_back_.push_back({block, bytes, device});
  }
  // Ends the recording; returns null if it contained a forbidden call.
  cudaGraph_t end();

 private:
  struct Block {
    void* data;
    std::size_t bytes;
    Device device;
  };

  Device device_;
  cudaStream_t stream_;
  RecordingMemory& memory_;
  std::vector<Block> given_back_;
  bool has_ended_ = false;
};

thread_local Session* session = nullptr;

// Thread-local mode: other threads' work, such as a data loader's with pinned memory, does not
// affect the recording.
Session::Session(Device device, RecordingMemory& memory)
    : device_(device), stream_(context_of(device).stream()), memory_(memory) {
  MEZZO_CUDA_CHECK(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal));
  session = this;
}

cudaGraph_t Session::end() {
  has_ended_ = true;
  cudaGraph_t graph = nullptr;
  check_cuda(cudaStreamEndCapture(stream_, &graph), "cudaStreamEndCapture");
  return graph;
}

Session::~Session() {
  if (!has_ended_) {
    cudaGraph_t graph = nullptr;
    static_cast<void>(cudaStreamEndCapture(stream_, &graph));
    const Graph dropped(graph);
    static_cast<void>(cudaGetLastError());  // or the next call would report it again
  }
  session = nullptr;
  for (const Block& block : given_back_) release_on(block.device, block.data, block.bytes);
}

class CudaRecorder final : public WorkRecorder {
 public:
  explicit CudaRecorder(Device device) : device_(device) {}

  Ref<Recording> record(const std::function<void()>& work) override {
    MEZZO_INVARIANT(!is_recording());
    const OnDevice on(device_);
    begin_in(context_of(device_).stream());
    Session recorded(device_, *memory_);
    work();
    const Graph graph(recorded.end());
    return Ref<Recording>(new CudaRecording(device_, graph.get(), memory_));
  }

 private:
  // Takes new memory if the stream differs, since blocks return to the stream that they were
  // allocated in. The former thread's recordings are gone by now, and would share nothing with this
  // one's.
  void begin_in(cudaStream_t stream) {
    if (memory_ != nullptr && stream == stream_) return;
    memory_ = make_ref<RecordingMemory>(allocator_of(device_));
    stream_ = stream;
  }

  Device device_;
  cudaStream_t stream_ = nullptr;
  Ref<RecordingMemory> memory_;
};

}  // namespace

std::unique_ptr<WorkRecorder> make_recorder(Device device) {
  return std::make_unique<CudaRecorder>(device);
}

bool is_recording() { return session != nullptr; }

void refuse_while_recording(const char* why) {
  if (!is_recording()) [[likely]]
    return;
  fail<UnsupportedError>("cuda", "work cannot be recorded: ", why, ". Run it eagerly");
}

void* allocate_while_recording(std::size_t bytes, Device device) {
  if (device != session->device()) refuse_while_recording("it needs memory of another GPU");
  return session->memory().take(bytes, session->stream());
}

void release_while_recording(void* block, std::size_t bytes, Device device) noexcept {
  if (!session->memory().put_back(block)) session->give_back_later(block, bytes, device);
}

}  // namespace mezzo::kernels::cuda
