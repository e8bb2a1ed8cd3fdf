// Moving tensors between devices.
#include <atomic>

#include "mezzo/core/device_backend.h"
#include "mezzo/core/moves.h"
#include "mezzo/core/tensor.h"

namespace mezzo {
namespace {

std::atomic<std::uint64_t> moves{0};

}  // namespace

Tensor Tensor::to(Device device) const {
  if (this->device() == device) return *this;
  if (!this->device().is_cpu() && !device.is_cpu()) {
    return to(kCpuDevice).to(device);
  }
  const Tensor source = is_one_block() ? *this : copy_of(*this);
  const Tensor copy = empty(shape(), dtype(), source.format(), device);
  copy_bytes(copy.address(), device, source.address(), source.device(), source.bytes());
  return copy;
}

void move_to(const Tensor& tensor, Device device) {
  if (tensor.device() != device) {
    const Tensor moved = tensor.to(device);
    TensorImpl& impl = *tensor.impl();
    impl.storage->drop_derived();  // copies in other dtypes would keep the old memory
    impl.storage = moved.storage();
    impl.offset = moved.offset();
    impl.strides = moved.strides();
    note_move();
  }
  if (tensor.is_leaf() && tensor.grad().defined()) tensor.set_grad(tensor.grad().to(device));
}

std::uint64_t count_of_moves() { return moves.load(std::memory_order_relaxed); }

void note_move() { moves.fetch_add(1, std::memory_order_relaxed); }

}  // namespace mezzo
