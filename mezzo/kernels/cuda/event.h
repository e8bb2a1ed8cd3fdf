// An event of the CUDA runtime.
#pragma once

#include "mezzo/kernels/cuda/check.h"

namespace mezzo::kernels::cuda {

class Event {
 public:
  // `flags`: cudaEventDisableTiming for an event that only orders streams, which is cheaper.
  explicit Event(unsigned flags = cudaEventDefault) {
    MEZZO_CUDA_CHECK(cudaEventCreateWithFlags(&event_, flags));
  }
  ~Event() { static_cast<void>(cudaEventDestroy(event_)); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;

  cudaEvent_t get() const { return event_; }

 private:
  cudaEvent_t event_ = nullptr;
};

}  // namespace mezzo::kernels::cuda
