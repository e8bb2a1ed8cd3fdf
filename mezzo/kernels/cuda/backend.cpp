#include "mezzo/kernels/cuda/backend.h"

#include <array>
#include <cstring>
#include <memory>
#include <mutex>

#include <cuda_runtime_api.h>

#include "mezzo/core/tensor.h"
#include "mezzo/kernels/cuda/allocator.h"
#include "mezzo/kernels/cuda/check.h"
#include "mezzo/kernels/cuda/context.h"
#include "mezzo/kernels/cuda/memory.h"
#include "mezzo/kernels/cuda/pinned.h"
#include "mezzo/kernels/cuda/report.h"

namespace mezzo::kernels::cuda {
namespace {

class CudaBackend final : public DeviceBackend {
 public:
  int count() const override { return device_count(); }

  std::string describe(Device device) const override {
    cudaDeviceProp properties{};
    MEZZO_CUDA_CHECK(cudaGetDeviceProperties(&properties, device.index));
    return concat(static_cast<const char*>(properties.name), ", compute capability ",
                  properties.major, ".", properties.minor, ", ", properties.multiProcessorCount,
                  " multiprocessors, ", properties.totalGlobalMem >> 20U, " MB");
  }

  void* allocate(std::size_t bytes, Device device) override {
    const OnDevice on(device);
    return allocator(device).allocate(bytes, context_of(device).stream());
  }

  void release(void* block, std::size_t bytes, Device device) noexcept override {
    try {
      const OnDevice on(device);
      allocator(device).release(block, bytes, context_of(device).stream());
    } catch (const Error&) {
      // Only a card that is lost refuses this; the next call that can throw will say so.
    }
  }

  MemoryStats memory_stats(Device device) const override { return allocator(device).stats(); }
  void reset_peak(Device device) override { allocator(device).reset_peak(); }
  void trim(Device device) override {
    synchronize(device);
    const OnDevice on(device);
    allocator(device).trim();
  }

  void* allocate_pinned(std::size_t bytes) override { return pinned_.allocate(bytes); }
  void release_pinned(void* block, std::size_t) noexcept override { pinned_.release(block); }

  void copy_from_host(void* to, const void* from, std::size_t bytes, Device device) override {
    const OnDevice on(device);
    cudaStream_t stream = context_of(device).stream();
    if (pinned_.contains(from, bytes)) {
      MEZZO_CUDA_CHECK(cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, stream));
      pinned_.note_use(from, stream);
      return;
    }
    // By way of pinned memory: the run time would copy to such memory as well, and have the host
    // wait for all work that is queued before.
    void* staged = pinned_.allocate(bytes);
    std::memcpy(staged, from, bytes);
    const cudaError_t status = cudaMemcpyAsync(to, staged, bytes, cudaMemcpyHostToDevice, stream);
    pinned_.note_use(staged, stream);
    pinned_.release(staged);
    check_cuda(status, "cudaMemcpyAsync");
  }

  void copy_to_host(void* to, const void* from, std::size_t bytes, Device device) override {
    const OnDevice on(device);
    cudaStream_t stream = context_of(device).stream();
    MEZZO_CUDA_CHECK(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, stream));
    MEZZO_CUDA_CHECK(cudaStreamSynchronize(stream));
    throw_reported(device);
  }

  void copy_on_device(void* to, const void* from, std::size_t bytes, Device device) override {
    const OnDevice on(device);
    MEZZO_CUDA_CHECK(
        cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, context_of(device).stream()));
  }

  void fill(const Tensor& tensor, double value) override { fill_tensor(tensor, value); }
  void copy_elements(const Tensor& source, const Tensor& destination) override {
    copy_tensor(source, destination);
  }

  void synchronize(Device device) override {
    const OnDevice on(device);
    MEZZO_CUDA_CHECK(cudaStreamSynchronize(context_of(device).stream()));
    throw_reported(device);
  }

 private:
  static CudaAllocator& allocator(Device device) {
    // Never destroyed: tensors in static variables may outlive every other static.
    static auto* allocators = new std::array<std::unique_ptr<CudaAllocator>, kMostDevices>;
    static std::mutex mutex;
    const std::lock_guard lock(mutex);
    std::unique_ptr<CudaAllocator>& found = (*allocators)[place_of(device)];
    if (found == nullptr) found = std::make_unique<CudaAllocator>(device);
    return *found;
  }

  PinnedPool pinned_;
};

}  // namespace

DeviceBackend& backend() {
  static auto* backend = new CudaBackend;
  return *backend;
}

}  // namespace mezzo::kernels::cuda
