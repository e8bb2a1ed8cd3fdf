#include "mezzo/kernels/cuda/launch.cuh"
#include "mezzo/kernels/cuda/report.h"
#include "mezzo/kernels/cuda/timer.h"

namespace mezzo::kernels::cuda {
namespace {

// Some 30 microseconds, in which the host queues what is to be timed. A card that waits for its
// host between the two events would have the wait counted.
constexpr long long kHeadStart = 60000;  // cycles

__global__ void wait_kernel(long long cycles) {
  const long long start = clock64();
  while (clock64() - start < cycles) {
  }
}

class Event {
 public:
  Event() { MEZZO_CUDA_CHECK(cudaEventCreate(&event_)); }
  ~Event() { static_cast<void>(cudaEventDestroy(event_)); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;

  cudaEvent_t get() const { return event_; }

 private:
  cudaEvent_t event_ = nullptr;
};

class EventTimer final : public DeviceTimer {
 public:
  explicit EventTimer(Device device) : launch_(device) {
    wait_kernel<<<1, 1, 0, launch_.stream()>>>(kHeadStart);
    check_launch("wait_kernel");
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
  Launch launch_;  // makes the card current before the events are made
  Event start_;
  Event stop_;
};

}  // namespace

std::unique_ptr<DeviceTimer> start_timer(Device device) {
  return std::make_unique<EventTimer>(device);
}

}  // namespace mezzo::kernels::cuda
