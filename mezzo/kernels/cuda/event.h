// An event of the CUDA run time, for timing.
#pragma once

#include "mezzo/kernels/cuda/check.h"

namespace mezzo::kernels::cuda {

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

}  // namespace mezzo::kernels::cuda
