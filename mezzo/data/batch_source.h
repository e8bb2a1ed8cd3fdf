// Batches of a set of examples, epoch by epoch, in an order that a seed decides: what fit() trains
// on. DataLoader makes them of images, TensorBatches and SequenceBatches of tensors.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "mezzo/core/tensor.h"
#include "mezzo/data/sampler.h"
#include "mezzo/distributed/process_group.h"

namespace mezzo::data {

// A place in the sequence of batches.
struct LoaderPosition {
  std::int64_t epoch = 0;
  std::int64_t step = 0;  // within the epoch

  bool operator==(const LoaderPosition&) const = default;
};

struct Batch {
  // All on the source's device.
  Tensor images{};  // what the network reads; of a DataLoader f32, bf16 or f16 [n, c, h, w]
  Tensor labels{};  // what the loss compares its output to; undefined if the source has none
  std::vector<std::int64_t> indices{};  // of the examples in their set
  // What else there is of each example, [n, ...], in the source's order: for loops of one's own.
  // fit() and eval() refuse batches that have any.
  std::vector<Tensor> more{};
};

// Which part of the examples a process gets that trains together with others
// (distributed/process_group.h). A batch of all processes has `count` times the batch size
// examples, in the order of one loader with that batch size, and process `index` gets the part with
// its number.
struct Shard {
  std::int64_t index = 0;  // from 0
  std::int64_t count = 1;
};
Shard shard_of(const distributed::ProcessGroup& processes);

// What decides which examples are in which batch.
struct BatchOrder {
  std::int64_t examples = 0;  // in the set
  std::int64_t batch_size = 0;
  bool shuffle = false;
  bool drop_remainder = false;
  std::uint64_t seed = 0;
  Shard shard{};
  std::shared_ptr<const Sampler> sampler{};  // null: each example once, shuffled or as they lie

  // The examples of an epoch, in all shards.
  std::int64_t epoch_size() const { return sampler == nullptr ? examples : sampler->epoch_size(); }
  // The examples of a step, in all shards.
  std::int64_t step_size() const { return batch_size * shard.count; }
};

// Which examples a batch has is a function of (order, position) alone, and the same for every kind
// of source. One consumer at a time.
class BatchSource {
 public:
  BatchSource(const BatchSource&) = delete;
  BatchSource& operator=(const BatchSource&) = delete;
  virtual ~BatchSource() = default;

  // The next batch of this epoch. False, with `batch` empty, at the end of the epoch: the call
  // after that gives the first batch of the next epoch. Rethrows what making the batch threw; the
  // call after that tries again.
  bool next(Batch& batch);

  // Of the batch that next() gives next; after the last one {epoch, steps_per_epoch()} until next()
  // has returned false.
  LoaderPosition position() const { return position_; }
  // Goes there, from anywhere. Throws ArgumentError unless epoch >= 0 and
  // 0 <= step <= steps_per_epoch().
  void seek(LoaderPosition position);

  std::int64_t steps_per_epoch() const;
  // The examples of an epoch, which are those of the set if no sampler says otherwise, less what
  // drop_remainder leaves out and other shards have.
  std::int64_t examples_per_epoch() const;
  // Of the last batch of an epoch, which may be smaller than the others; 0 if there is none.
  std::int64_t last_batch_size() const;
  const BatchOrder& order() const { return order_; }

 protected:
  // Throws ArgumentError unless batch_size is positive and the shard is one of its count, and if
  // with drop_remainder the batch of all shards is larger than an epoch; also for a sampler that is
  // for a set of another size, or cannot give this order.
  explicit BatchSource(BatchOrder order);

  // The examples of a step of this epoch, from begin_epoch() on.
  std::vector<std::int64_t> indices_of(std::int64_t step) const;
  // How often the example in that place of the batch of a step has come before in this epoch.
  std::int64_t repeats_of(std::int64_t step, std::int64_t place) const {
    return repeats_.empty() ? 0 : repeats_[static_cast<std::size_t>(first_of(step) + place)];
  }

 private:
  // The first of this shard's in a step, by its place in the epoch.
  std::int64_t first_of(std::int64_t step) const {
    return step * order_.step_size() + order_.shard.index * order_.batch_size;
  }

  void order_epoch();

  // The batch at position() with these indices.
  virtual Batch take_batch() = 0;
  // Before the first batch of an epoch, and of those that follow a seek().
  virtual void begin_epoch() {}
  // Forgets what was made for the position that is left.
  virtual void leave_position() {}

  BatchOrder order_;
  LoaderPosition position_;
  bool started_ = false;               // indices_ are those of the epoch
  std::vector<std::int64_t> indices_;  // of the examples, in the order of this epoch
  std::vector<std::int64_t> repeats_;  // beside indices_, if a sampler made them
};

// Afterwards the source stands where it stood, whatever was read from it meanwhile.
class KeepPosition {
 public:
  explicit KeepPosition(BatchSource& source) : source_(source), before_(source.position()) {}
  ~KeepPosition() { source_.seek(before_); }
  KeepPosition(const KeepPosition&) = delete;
  KeepPosition& operator=(const KeepPosition&) = delete;

 private:
  BatchSource& source_;
  LoaderPosition before_;
};

}  // namespace mezzo::data
