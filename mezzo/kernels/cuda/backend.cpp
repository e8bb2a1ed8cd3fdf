#include "mezzo/kernels/cuda/backend.h"

#include <memory>

#include <cuda_runtime_api.h>

#include "mezzo/core/tensor.h"
#include "mezzo/kernels/cuda/allocator.h"
#include "mezzo/kernels/cuda/check.h"
#include "mezzo/kernels/cuda/context.h"
#include "mezzo/kernels/cuda/host_copy.h"
#include "mezzo/kernels/cuda/memory.h"
#include "mezzo/kernels/cuda/nccl_engine.h"
#include "mezzo/kernels/cuda/pinned.h"
#include "mezzo/kernels/cuda/recorder.h"
#include "mezzo/kernels/cuda/report.h"
#include "mezzo/kernels/cuda/timer.h"

namespace mezzo::kernels::cuda {
namespace {

constexpr const char* kReadsHost = "it reads host memory";

class CudaBackend final : public DeviceBackend {
 public:
  int count() const override { return device_count(); }
  std::string why_none() const override { return why_no_device(); }

  std::string describe(Device device) const override {
    cudaDeviceProp properties{};
    MEZZO_CUDA_CHECK(cudaGetDeviceProperties(&properties, device.index));
    return concat(static_cast<const char*>(properties.name), ", compute capability ",
                  properties.major, ".", properties.minor, ", ", properties.multiProcessorCount,
                  " multiprocessors, ", properties.totalGlobalMem >> 20U, " MB");
  }

  void* allocate(std::size_t bytes, Device device) override {
    const OnDevice on(device);
    if (is_recording()) [[unlikely]]
      return allocate_while_recording(bytes, device);
    return allocator_of(device).allocate(bytes, context_of(device).stream());
  }

  void release(void* block, std::size_t bytes, Device device) noexcept override {
    if (is_recording()) [[unlikely]]
      return release_while_recording(block, bytes, device);
    try {
      const OnDevice on(device);
      allocator_of(device).release(block, bytes, context_of(device).stream());
    } catch (const Error&) {
      // This fails only if the device is lost; the next call that can throw reports that.
    }
  }

  MemoryStats memory_stats(Device device) const override { return allocator_of(device).stats(); }
  std::size_t available(Device device) const override {
    const OnDevice on(device);
    std::size_t free = 0;
    std::size_t total = 0;
    MEZZO_CUDA_CHECK(cudaMemGetInfo(&free, &total));
    return free + static_cast<std::size_t>(memory_stats(device).cached_bytes);
  }
  void reset_peak(Device device) override { allocator_of(device).reset_peak(); }
  void trim(Device device) override {
    synchronize(device);
    const OnDevice on(device);
    allocator_of(device).trim();
  }

  void* allocate_pinned(std::size_t bytes) override { return pinned_.allocate(bytes); }
  void release_pinned(void* block, std::size_t) noexcept override { pinned_.release(block); }

  void copy_from_host(void* to, const void* from, std::size_t bytes, Device device) override {
    refuse_while_recording(kReadsHost);
    cuda::copy_from_host(pinned_, to, from, bytes, device);
  }

  std::unique_ptr<DeviceCopy> begin_copy_from_host(void* to, const void* from, std::size_t bytes,
                                                   Device device) override {
    refuse_while_recording(kReadsHost);
    return cuda::begin_copy_from_host(pinned_, to, from, bytes, device);
  }

  void copy_to_host(void* to, const void* from, std::size_t bytes, Device device) override {
    refuse_while_recording("it reads values on the host");
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

  std::unique_ptr<WorkRecorder> make_recorder(Device device) override {
    return cuda::make_recorder(device);
  }

  std::unique_ptr<DeviceTimer> start_timer(Device device) override {
    refuse_while_recording("it is timed");
    return cuda::start_timer(device);
  }

  const DeviceEngineMaker* engine_maker() const override { return cuda::engine_maker(); }

  void synchronize(Device device) override {
    refuse_while_recording("it waits for the GPU");
    const OnDevice on(device);
    MEZZO_CUDA_CHECK(cudaStreamSynchronize(context_of(device).stream()));
    throw_reported(device);
  }

 private:
  PinnedPool pinned_;
};

}  // namespace

DeviceBackend& backend() {
  static auto* backend = new CudaBackend;
  return *backend;
}

}  // namespace mezzo::kernels::cuda
