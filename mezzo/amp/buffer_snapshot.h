// Copies of networks' buffers, for steps that turn out to be skipped.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "mezzo/core/tensor.h"
#include "mezzo/nn/module.h"

namespace mezzo::amp {

// A forward pass moves running statistics, although its step may be skipped afterwards. A loop of
// one's own takes them back:
//
//   const amp::BufferSnapshot before(net);
//   scaler.scale(loss_of(net(x), y)).backward();
//   if (scaler.step(optimizer).found_inf) before.restore();
//
// TrainOneStepWithLossScale does so by itself, and a Graph by GraphConfig::restore_buffers().
//
// The copies lie in memory that is kept from step to step. Those of buffers on devices are made by
// queued work, and apart, so that a recording can hold it.
class BufferSnapshot {
 public:
  BufferSnapshot() = default;
  // Copies the buffers of a network, now. Throws ArgumentError while a step is captured, whose runs
  // would not copy them.
  explicit BufferSnapshot(nn::Module& net);

  // Finds the buffers, and memory for their copies.
  void find(std::span<nn::Module* const> nets);
  void copy_on_host() const;
  void copy_on_devices() const;
  // Puts back all, or those on the host.
  void restore(bool everywhere = true) const;
  // Those on devices and their copies.
  std::vector<Tensor> on_devices() const;

 private:
  void add(nn::Module& module);

  std::vector<Tensor> buffers_;
  std::vector<Tensor> copies_;
  std::size_t count_ = 0;
};

}  // namespace mezzo::amp
