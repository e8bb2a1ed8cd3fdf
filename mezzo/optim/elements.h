// Elements of dense tensors in the order in which they lie in memory.
#pragma once

#include "mezzo/core/tensor.h"
#include "mezzo/optim/shard.h"

namespace mezzo::optim {

// These elements of a dense tensor as a view [n], whatever the tensor's format.
inline Tensor elements_of(const Tensor& dense, const ShardRange& range) {
  return alias(dense, {range.size()}, {1}, dense.offset() + range.begin);
}

}  // namespace mezzo::optim
