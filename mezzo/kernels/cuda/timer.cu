#include "mezzo/kernels/cuda/event.h"
#include "mezzo/kernels/cuda/launch.cuh"
#include "mezzo/kernels/cuda/report.h"
#include "mezzo/kernels/cuda/timer.h"

namespace mezzo::kernels::cuda {
namespace {

constexpr long long kHeadStart = 60000;  // cycles

__global__ void wait_kernel(long long cycles) {
  const long long start = clock64();
  while (clock64() - start < cycles) {
  }
}

class EventTimer final : public DeviceTimer {
 public:
  explicit EventTimer(Device device) : launch_(device) {
    queue_head_start(launch_.stream());
    MEZZO_CUDA_CHECK(cudaEventRecord(start_.get(), launch_.stream()));
  }

  double stop() override {
    MEZZO_CUDA_CHECK(cudaEventRecord(stop_.get(), launch_.stream()));
    MEZZO_CUDA_CHECK(cudaEventSynchronize(stop_.get()));
    throw_reported(launch_.device());
    float ms = 0;
    MEZZO_CUDA_CHECK(cudaEventElapsedTime(&ms, start_.get(), stop_.get()));
    return ms;
  }

 private:
  Launch launch_;  // makes the device current before the events are created
  Event start_;
  Event stop_;
};

}  // namespace

void queue_head_start(cudaStream_t stream) {
  wait_kernel<<<1, 1, 0, stream>>>(kHeadStart);
  check_launch("wait_kernel");
}

std::unique_ptr<DeviceTimer> start_timer(Device device) {
  return std::make_unique<EventTimer>(device);
}

}  // namespace mezzo::kernels::cuda
