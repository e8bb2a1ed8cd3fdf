#include "mezzo/data/sequence_batches.h"

#include <utility>

#include "mezzo/core/error.h"
#include "mezzo/data/rows.h"

namespace mezzo::data {

SequenceBatches::SequenceBatches(std::vector<Tensor> sequences, const Tensor& labels,
                                 SequenceBatchesOptions options)
    : BatchSource(order_of(std::ssize(sequences), options.batches)),
      sequences_(std::move(sequences)),
      labels_(labels),
      padding_(options.padding),
      give_lengths_(options.give_lengths) {
  check_sequences("SequenceBatches", sequences_, padding_);
  check_rows("SequenceBatches", labels_, "labels");
  check_arg(labels_.size(0) == std::ssize(sequences_), "SequenceBatches", "there are ",
            sequences_.size(), " sequences and ", labels_.size(0),
            " labels. Give a label for each sequence");
}

Batch SequenceBatches::take_batch() {
  Batch batch{.indices = indices_of(position().step)};
  std::vector<Tensor> sequences;
  for (const std::int64_t i : batch.indices) {
    sequences.push_back(sequences_[static_cast<std::size_t>(i)]);
  }
  PaddedSequences padded = pad_sequences(sequences, padding_);
  batch.images = std::move(padded.values);
  batch.labels = take_rows(labels_, batch.indices);
  if (give_lengths_) batch.more.push_back(std::move(padded.lengths));
  return batch;
}

}  // namespace mezzo::data
