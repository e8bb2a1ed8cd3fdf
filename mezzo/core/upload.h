// A tensor of the host on its way to a device.
#pragma once

#include <memory>

#include "mezzo/core/device_backend.h"
#include "mezzo/core/tensor.h"

namespace mezzo {

// Copies beside the work that is queued on the device: the input of the next training step goes
// there while this step runs. Tensor::to() copies in the queue instead, between one and the other.
class Upload {
 public:
  // Begins the copy, behind all that the calling thread has queued before: what that did with the
  // memory is done. If `source` is pinned, its elements must not be changed before the copy is
  // done; the tensor itself may go. Throws what Tensor::to() throws.
  Upload(const Tensor& source, Device device);
  Upload(const Upload&) = delete;
  Upload& operator=(const Upload&) = delete;

  // The copy, of the source's layout. What the calling thread queues from now on finds it complete.
  Tensor take();

 private:
  Tensor copy_;
  std::unique_ptr<DeviceCopy> under_way_;  // goes first: it joins before the memory is given back
};

}  // namespace mezzo
