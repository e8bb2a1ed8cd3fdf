// Batches of tensors: tables, sequences of tokens, anything that fits in memory.
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
  std::uint64_t seed = 0;       // determines the order
  Shard shard{};                // of batches shared by several processes
  // Chooses an epoch's examples and their order; see sampler.h. Null: each example once.
  std::shared_ptr<const Sampler> sampler{};
};

// The batch order for that many examples with these options.
BatchOrder order_of(std::int64_t examples, const TensorBatchesOptions& options);

// Row i of all tensors is example i: Batch::images has rows of `inputs`, Batch::labels the same
// rows of `labels`, Batch::more those of further inputs, and Batch::more_labels those of further
// labels, in their dtypes and formats. Batches are copies in host memory; fit() moves them to the
// network's device. The order is that of a DataLoader with the same seed and as many images.
class TensorBatches final : public BatchSource {
 public:
  // inputs: [n, ...], labels: [n, ...], of any dtypes. Elements are read when a batch is made, so
  // they must not change before that. Throws ArgumentError unless n >= 1, if the n differ, if a
  // tensor is not dense or not in host memory, for a batch size that is not positive or, with
  // drop_remainder, larger than an epoch, and for a sampler of another number of examples.
  TensorBatches(const Tensor& inputs, const Tensor& labels, TensorBatchesOptions options = {});
  // With further inputs [n, ...], which become Batch::more in their order.
  TensorBatches(const Tensor& inputs, const Tensor& labels, std::vector<Tensor> more,
                TensorBatchesOptions options);
  // Any number of inputs, at least one, and of labels: TensorBatches({queries, texts}, {scores}).
  TensorBatches(const std::vector<Tensor>& inputs, const std::vector<Tensor>& labels,
                const TensorBatchesOptions& options = {});
  // Only inputs: Batch::labels is undefined.
  TensorBatches(const Tensor& inputs, TensorBatchesOptions options);

 private:
  Batch take_batch() override;

  Tensor inputs_;
  Tensor labels_;
  std::vector<Tensor> more_;
  std::vector<Tensor> more_labels_;
};

}  // namespace mezzo::data
