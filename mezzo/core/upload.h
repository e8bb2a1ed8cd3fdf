// A copy of a host tensor to a device that overlaps with other work.
#pragma once

#include <memory>

#include "mezzo/core/device_backend.h"
#include "mezzo/core/tensor.h"

namespace mezzo {

// Copies concurrently with the work that is queued on the device: the input of the next training
// step is copied while this step runs. Tensor::to() copies in the queue instead.
class Upload {
 public:
  // Begins the copy after all work that the calling thread has queued, so earlier uses of the
  // memory are done. If `source` is pinned, its elements must not be changed before the copy is
  // done; the tensor itself may be destroyed. Throws what Tensor::to() throws.
  Upload(const Tensor& source, Device device);
  Upload(const Upload&) = delete;
  Upload& operator=(const Upload&) = delete;

  // The copy, in the source's layout. Work that the calling thread queues from now on sees it
  // complete.
  Tensor take();

 private:
  Tensor copy_;
  std::unique_ptr<DeviceCopy> under_way_;  // destroyed first: it joins before the memory is freed
};

}  // namespace mezzo
