#include "mezzo/kernels/cuda/host_copy.h"

#include <cstring>

#include <cuda_runtime_api.h>

#include "mezzo/kernels/cuda/check.h"
#include "mezzo/kernels/cuda/context.h"
#include "mezzo/kernels/cuda/event.h"

namespace mezzo::kernels::cuda {
namespace {

void queue_copy(PinnedPool& pinned, void* to, const void* from, std::size_t bytes,
                cudaStream_t stream) {
  if (pinned.contains(from, bytes)) {
    MEZZO_CUDA_CHECK(cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, stream));
    pinned.note_use(from, stream);
    return;
  }
  // Copies through pinned memory. The runtime would do that itself, but make the host wait for all
  // work that is queued before.
  void* staged = pinned.allocate(bytes);
  std::memcpy(staged, from, bytes);
  const cudaError_t status = cudaMemcpyAsync(to, staged, bytes, cudaMemcpyHostToDevice, stream);
  pinned.note_use(staged, stream);
  pinned.release(staged);
  check_cuda(status, "cudaMemcpyAsync");
}

class CopyBeside final : public DeviceCopy {
 public:
  CopyBeside(PinnedPool& pinned, void* to, const void* from, std::size_t bytes, Device device)
      : device_(device), done_(cudaEventDisableTiming) {
    Context& context = context_of(device);
    // Queued work may still use the block, whose uses are ordered by that stream.
    const Event vacant(cudaEventDisableTiming);
    MEZZO_CUDA_CHECK(cudaEventRecord(vacant.get(), context.stream()));
    MEZZO_CUDA_CHECK(cudaStreamWaitEvent(context.copy_stream(), vacant.get(), 0));
    queue_copy(pinned, to, from, bytes, context.copy_stream());
    MEZZO_CUDA_CHECK(cudaEventRecord(done_.get(), context.copy_stream()));
  }

  ~CopyBeside() override {
    try {
      if (!is_joined_) join();
    } catch (const Error&) {
      // This fails only if the device is lost; the next call that can throw reports that.
    }
  }

  void join() override {
    const OnDevice on(device_);
    MEZZO_CUDA_CHECK(cudaStreamWaitEvent(context_of(device_).stream(), done_.get(), 0));
    is_joined_ = true;
  }

 private:
  Device device_;
  Event done_;
  bool is_joined_ = false;
};

}  // namespace

void copy_from_host(PinnedPool& pinned, void* to, const void* from, std::size_t bytes,
                    Device device) {
  const OnDevice on(device);
  queue_copy(pinned, to, from, bytes, context_of(device).stream());
}

std::unique_ptr<DeviceCopy> begin_copy_from_host(PinnedPool& pinned, void* to, const void* from,
                                                 std::size_t bytes, Device device) {
  const OnDevice on(device);  // before the events are created: they belong to the current device
  return std::make_unique<CopyBeside>(pinned, to, from, bytes, device);
}

}  // namespace mezzo::kernels::cuda
