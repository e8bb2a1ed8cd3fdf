// Batches of sequences of unequal length, padded to the longest of the batch.
#pragma once

#include <cstdint>
#include <vector>

#include "mezzo/core/tensor.h"
#include "mezzo/data/batch_source.h"
#include "mezzo/data/pad.h"
#include "mezzo/data/tensor_batches.h"

namespace mezzo::data {

struct SequenceBatchesOptions {
  // .sampler = length_buckets(lengths_of(sequences)) keeps the padding small.
  TensorBatchesOptions batches{};
  PadOptions padding{};
  // Gives the lengths as Batch::more[0], i64 [n]: a second input of the network.
  bool give_lengths = true;
};

// Sequence i and row i of the labels are example i. Batch::images is [n, longest of the batch, ...]
// in the dtype of the sequences; Batch::labels holds the rows of the labels. The order is that of
// TensorBatches with the same options.
class SequenceBatches final : public BatchSource {
 public:
  // sequences: [t_i, ...] as pad_sequences() takes them; labels: [n, ...]. Elements are read when a
  // batch is made, so they must not change before that. Throws ArgumentError for whatever
  // pad_sequences() or TensorBatches refuse, and unless there is a row of labels for each sequence.
  SequenceBatches(std::vector<Tensor> sequences, const Tensor& labels,
                  SequenceBatchesOptions options = {});

 private:
  Batch take_batch() override;

  std::vector<Tensor> sequences_;
  Tensor labels_;
  PadOptions padding_;
  bool give_lengths_;
};

}  // namespace mezzo::data
