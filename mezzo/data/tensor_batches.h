// Batches of tensors: tables, sequences of tokens, whatever lies in memory.
#pragma once

#include <cstdint>

#include "mezzo/core/tensor.h"
#include "mezzo/data/batch_source.h"

namespace mezzo::data {

struct TensorBatchesOptions {
  std::int64_t batch_size = 64;
  bool shuffle = true;          // a new order each epoch; otherwise 0, 1, 2, ...
  bool drop_remainder = false;  // leave out the last batch of an epoch if it is not full
  std::uint64_t seed = 0;       // of the order
  Shard shard{};                // of batches that several processes share
};

// Row i of both tensors is example i: Batch::images has rows of `inputs`, Batch::labels the same
// rows of `labels`, in their dtypes and formats. Batches are copies in the host's memory; fit()
// takes them to the network's device. Orders are those of a DataLoader with the same seed, over as
// many images.
class TensorBatches final : public BatchSource {
 public:
  // inputs: [n, ...], labels: [n, ...], of any dtypes. Their elements are read when a batch is made
  // and must be what they are then. Throws ArgumentError unless n >= 1, if the n differ, if a
  // tensor is not dense or not in the host's memory, and for a batch size that is not positive, or
  // larger than n with drop_remainder.
  TensorBatches(const Tensor& inputs, const Tensor& labels, TensorBatchesOptions options = {});

 private:
  Batch take_batch() override;

  Tensor inputs_;
  Tensor labels_;
};

}  // namespace mezzo::data
