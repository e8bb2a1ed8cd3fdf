// Copies of networks' buffers, for steps that turn out to be skipped.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "mezzo/core/tensor.h"
#include "mezzo/nn/module.h"

namespace mezzo::amp {

// A forward pass updates running statistics, although its step may be skipped afterwards. A custom
// training loop can restore them:
//
//   const amp::BufferSnapshot before(net);
//   scaler.scale(loss_of(net(x), y)).backward();
//   if (scaler.step(optimizer).found_inf) before.restore();
//
// TrainStep does this itself, and a Graph does with GraphConfig::restore_buffers().
//
// The copies are in memory that is kept from step to step. Buffers on devices are copied
// separately, by queued work, so that a recording can hold it.
class BufferSnapshot {
 public:
  BufferSnapshot() = default;
  // Copies the buffers of a network now. Throws ArgumentError during a capture, whose runs would
  // not copy them.
  explicit BufferSnapshot(nn::Module& net);

  // Collects the buffers, and allocates memory for their copies.
  void find(std::span<nn::Module* const> nets);
  void copy_on_host() const;
  void copy_on_devices() const;
  // Restores all buffers, or only those on the host.
  void restore(bool everywhere = true) const;
  // The buffers on devices and their copies.
  std::vector<Tensor> on_devices() const;

 private:
  void add(nn::Module& module);

  std::vector<Tensor> buffers_;
  std::vector<Tensor> copies_;
  std::size_t count_ = 0;
};

}  // namespace mezzo::amp
