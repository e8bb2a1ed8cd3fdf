#include "mezzo/amp/buffer_snapshot.h"

#include "mezzo/core/device_backend.h"
#include "mezzo/ops/dispatcher/capture_hook.h"

namespace mezzo::amp {
namespace {

// Copies elements; both have the same shape, and the same format if `from` is one block.
void copy_bits(const Tensor& from, const Tensor& to) {
  if (from.is_one_block() && to.is_one_block()) {
    copy_bytes(to.address(), to.device(), from.address(), from.device(), from.bytes());
    to.bump_version();
  } else {
    copy_elements(from, to);
  }
}

}  // namespace

void BufferSnapshot::add(nn::Module& module) {
  for (const nn::Module::Member& member : module.own_buffers()) {
    const Tensor& buffer = *member.tensor;
    if (count_ == buffers_.size()) {
      buffers_.emplace_back();
      copies_.emplace_back();
    }
    Tensor& copy = copies_[count_];
    const bool fits = copy.defined() && copy.shape() == buffer.shape() &&
                      copy.dtype() == buffer.dtype() && copy.format() == buffer.format() &&
                      copy.device() == buffer.device();
    if (!fits) copy = empty(buffer.shape(), buffer.dtype(), buffer.format(), buffer.device());
    buffers_[count_++] = buffer;
  }
  for (const nn::Module::Child& child : module.children()) add(*child.module);
}

BufferSnapshot::BufferSnapshot(nn::Module& net) {
  check_arg(capture_hook() == nullptr, "BufferSnapshot",
            "a captured step copies no buffers when it is replayed. Make the copy before the step, "
            "or leave it to TrainStep or to GraphConfig::restore_buffers()");
  nn::Module* const nets[] = {&net};
  find(nets);
  copy_on_host();
  copy_on_devices();
}

void BufferSnapshot::find(std::span<nn::Module* const> nets) {
  count_ = 0;
  for (nn::Module* net : nets) add(*net);
}

void BufferSnapshot::copy_on_host() const {
  for (std::size_t i = 0; i < count_; ++i) {
    if (buffers_[i].device().is_cpu()) copy_bits(buffers_[i], copies_[i]);
  }
}

void BufferSnapshot::copy_on_devices() const {
  for (std::size_t i = 0; i < count_; ++i) {
    if (!buffers_[i].device().is_cpu()) copy_bits(buffers_[i], copies_[i]);
  }
}

std::vector<Tensor> BufferSnapshot::on_devices() const {
  std::vector<Tensor> tensors;
  for (std::size_t i = 0; i < count_; ++i) {
    if (!buffers_[i].device().is_cpu()) tensors.insert(tensors.end(), {buffers_[i], copies_[i]});
  }
  return tensors;
}

void BufferSnapshot::restore(bool everywhere) const {
  for (std::size_t i = 0; i < count_; ++i) {
    if (everywhere || buffers_[i].device().is_cpu()) copy_bits(copies_[i], buffers_[i]);
  }
}

}  // namespace mezzo::amp
