// Tensors that go from one device to another.
#include "mezzo/core/device_backend.h"
#include "mezzo/core/tensor.h"

namespace mezzo {
namespace {

// The same elements in one block of memory on the same device.
Tensor in_one_block(const Tensor& tensor) {
  if (tensor.is_dense() || tensor.is_dense(Format::kChannelsLast)) return tensor;
  const Tensor copy = empty(tensor.shape(), tensor.dtype(), Format::kContiguous, tensor.device());
  copy_elements(tensor, copy);
  return copy;
}

}  // namespace

Tensor Tensor::to(Device device) const {
  if (this->device() == device) return *this;
  if (this->device().type != DeviceType::kCpu && device.type != DeviceType::kCpu) {
    return to(kCpuDevice).to(device);
  }
  const Tensor source = in_one_block(*this);
  const Tensor copy = empty(shape(), dtype(), source.format(), device);
  copy_bytes(copy.address(), device, source.address(), source.device(), source.bytes());
  return copy;
}

void move_to(const Tensor& tensor, Device device) {
  if (tensor.device() != device) {
    const Tensor moved = tensor.to(device);
    TensorImpl& impl = *tensor.impl();
    impl.storage->drop_derived();  // copies in other dtypes, which would hold the old memory
    impl.storage = moved.storage();
    impl.offset = moved.offset();
    impl.strides = moved.strides();
  }
  if (tensor.is_leaf() && tensor.grad().defined()) tensor.set_grad(tensor.grad().to(device));
}

}  // namespace mezzo
