// Batches of a set of examples, epoch by epoch, in an order that a seed determines: the input of
// fit(). DataLoader makes batches of images; TensorBatches and SequenceBatches make them of
// tensors.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "mezzo/core/tensor.h"
#include "mezzo/data/sampler.h"
#include "mezzo/distributed/process_group.h"

namespace mezzo::data {

// A position in the sequence of batches.
struct LoaderPosition {
  std::int64_t epoch = 0;
  std::int64_t step = 0;  // within the epoch

  bool operator==(const LoaderPosition&) const = default;
};

struct Batch {
  // All tensors are on the source's device.
  Tensor images{};  // network input; for a DataLoader [n, c, h, w] in f32 or 16 bits
  Tensor labels{};  // targets of the loss; undefined if the source has none
  std::vector<std::int64_t> indices{};  // of the examples, within their set
  // Further inputs of the network and further targets, [n, ...], in the source's order.
  std::vector<Tensor> more{};
  std::vector<Tensor> more_labels{};
};

// The part of the examples that one process gets when several train together
// (distributed/process_group.h). A batch of all processes has `count` times the batch size
// examples, in the order of a single loader with that batch size. Process `index` gets the part
// with its number.
struct Shard {
  std::int64_t index = 0;  // from 0
  std::int64_t count = 1;
};
Shard shard_of(const distributed::ProcessGroup& processes);

// The options that determine which examples are in which batch.
struct BatchOrder {
  std::int64_t examples = 0;  // in the set
  std::int64_t batch_size = 0;
  bool shuffle = false;
  bool drop_remainder = false;
  std::uint64_t seed = 0;
  Shard shard{};
  std::shared_ptr<const Sampler> sampler{};  // null: each example once, shuffled or in order
  // Without a sampler: an epoch has so many examples, drawn with replacement, each by its place in
  // the epoch alone. No list of the examples is made, so there may be any number of them. 0: each
  // example once.
  std::int64_t draws = 0;

  // The number of examples in an epoch, over all shards.
  std::int64_t epoch_size() const {
    if (sampler != nullptr) return sampler->epoch_size();
    return draws > 0 ? draws : examples;
  }
  // The number of examples in a step, over all shards.
  std::int64_t step_size() const { return batch_size * shard.count; }
};

// The examples of a batch are a function of (order, position) alone, which is the same for every
// kind of source. Only one consumer at a time may use a source.
class BatchSource {
 public:
  BatchSource(const BatchSource&) = delete;
  BatchSource& operator=(const BatchSource&) = delete;
  virtual ~BatchSource() = default;

  // Takes the next batch of this epoch. Returns false, with `batch` empty, at the end of the epoch;
  // the following call gives the first batch of the next epoch. Rethrows what making the batch
  // threw; the following call tries again.
  bool next(Batch& batch);

  // The position of the next batch. After the last batch it is {epoch, steps_per_epoch()} until
  // next() has returned false.
  LoaderPosition position() const { return position_; }
  // Moves to any position. Throws ArgumentError unless epoch >= 0 and 0 <= step <=
  // steps_per_epoch().
  void seek(LoaderPosition position);

  std::int64_t steps_per_epoch() const;
  // The number of examples in an epoch of this shard: those of the set, or of the sampler's epoch,
  // without those that drop_remainder leaves out or that other shards have.
  std::int64_t examples_per_epoch() const;
  // The size of an epoch's last batch, which may be smaller than the others; 0 if there is none.
  std::int64_t last_batch_size() const;
  const BatchOrder& order() const { return order_; }

 protected:
  // Throws ArgumentError unless batch_size is positive, draws is not negative and the shard's index
  // is within its count.
  // Also throws if, with drop_remainder, the batch of all shards is larger than an epoch, and if
  // the sampler is for a set of another size or refuses this order.
  explicit BatchSource(BatchOrder order);

  // The examples of a step of this epoch. Valid from begin_epoch() on.
  std::vector<std::int64_t> indices_of(std::int64_t step) const;
  // How often the example at that place in a step's batch has already occurred in this epoch.
  std::int64_t repeats_of(std::int64_t step, std::int64_t place) const {
    return repeats_.empty() ? 0 : repeats_[static_cast<std::size_t>(first_of(step) + place)];
  }

 private:
  // The place in the epoch of this shard's first example in a step.
  std::int64_t first_of(std::int64_t step) const {
    return step * order_.step_size() + order_.shard.index * order_.batch_size;
  }

  void order_epoch();
  // The examples at these places of the epoch, with BatchOrder::draws.
  std::vector<std::int64_t> drawn(std::int64_t first, std::int64_t count) const;

  // The batch at position() with these indices.
  virtual Batch take_batch() = 0;
  // Called before the first batch of an epoch and before the first one after a seek().
  virtual void begin_epoch() {}
  // Discards what was prepared for the position that is left.
  virtual void leave_position() {}

  BatchOrder order_;
  LoaderPosition position_;
  bool started_ = false;               // indices_ belong to the current epoch
  std::vector<std::int64_t> indices_;  // of the examples, in this epoch's order
  std::vector<std::int64_t> repeats_;  // for each of indices_, if a sampler made them
};

// Restores the source's position on destruction, whatever was read from it meanwhile.
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
