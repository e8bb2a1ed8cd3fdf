// Copies of a network's buffers, for steps that turn out to be skipped.
#pragma once

#include <cstddef>
#include <vector>

#include "mezzo/core/tensor.h"
#include "mezzo/nn/module.h"

namespace mezzo::amp {

// The copies lie in memory that is kept from step to step. Those of buffers on devices are made by
// queued work, and apart, so that a recording can hold it.
class BufferSnapshot {
 public:
  // Finds the buffers, and memory for their copies.
  void find(nn::Module& net);
  void copy_on_host() const;
  void copy_on_devices() const;
  // Puts back all, or those on the host.
  void restore(bool everywhere) const;
  // Those on devices and their copies.
  std::vector<Tensor> on_devices() const;

 private:
  void add(nn::Module& module);

  std::vector<Tensor> buffers_;
  std::vector<Tensor> copies_;
  std::size_t count_ = 0;
};

}  // namespace mezzo::amp
