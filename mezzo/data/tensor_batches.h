// Batches of tensors: tables, sequences of tokens, whatever lies in memory.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "mezzo/core/tensor.h"
#include "mezzo/data/batch_source.h"

namespace mezzo::data {

struct TensorBatchesOptions {
  std::int64_t batch_size = 64;
  bool shuffle = true;          // a new order each epoch; otherwise 0, 1, 2, ...
  bool drop_remainder = false;  // leave out the last batch of an epoch if it is not full
  std::uint64_t seed = 0;       // of the order
  Shard shard{};                // of batches that several processes share
  // Which examples an epoch has, and in what order: see sampler.h. Null: each once.
  std::shared_ptr<const Sampler> sampler{};
};

// The order of that many examples.
BatchOrder order_of(std::int64_t examples, const TensorBatchesOptions& options);

// Row i of all tensors is example i: Batch::images has rows of `inputs`, Batch::labels the same
// rows of `labels`, Batch::more those of further tensors, in their dtypes and formats. Batches are
// copies in the host's memory; fit() takes them to the network's device. Orders are those of a
// DataLoader with the same seed, over as many images.
class TensorBatches final : public BatchSource {
 public:
  // inputs: [n, ...], labels: [n, ...], of any dtypes. Their elements are read when a batch is made
  // and must be what they are then. Throws ArgumentError unless n >= 1, if the n differ, if a
  // tensor is not dense or not in the host's memory, for a batch size that is not positive, or
  // larger than an epoch with drop_remainder, and for a sampler of another number of examples.
  TensorBatches(const Tensor& inputs, const Tensor& labels, TensorBatchesOptions options = {});
  // With further tensors [n, ...], which become Batch::more in their order: for a loop of one's
  // own.
  TensorBatches(const Tensor& inputs, const Tensor& labels, std::vector<Tensor> more,
                TensorBatchesOptions options);
  // Inputs alone: Batch::labels is undefined.
  TensorBatches(const Tensor& inputs, TensorBatchesOptions options);

 private:
  Batch take_batch() override;

  Tensor inputs_;
  Tensor labels_;
  std::vector<Tensor> more_;
};

}  // namespace mezzo::data
