// Samplers: which examples an epoch has and in what order, other than each once in a shuffled one.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "mezzo/core/tensor.h"

namespace mezzo::data {

struct BatchOrder;
class Dataset;

// A sampler is shared by any number of sources and never changes. What it gives must be a function
// of its own contents, the order and the epoch alone: batches are the same then after a restart,
// and in every process.
class Sampler {
 public:
  Sampler() = default;
  Sampler(const Sampler&) = delete;
  Sampler& operator=(const Sampler&) = delete;
  virtual ~Sampler() = default;

  // What it is, with a checksum of what it was made of. Checkpoints keep it: a run goes on only
  // with a sampler of the same description.
  virtual std::string description() const = 0;
  // The number of examples in the set that it is for.
  virtual std::int64_t set_size() const = 0;
  // The number of examples in an epoch, at least 1.
  virtual std::int64_t epoch_size() const { return set_size(); }
  // Throws ArgumentError for an order that it cannot give. Sources call it when they are made.
  virtual void check(const BatchOrder& /*order*/) const {}
  // The epoch_size() examples of an epoch, each in [0, set_size()). Batches of all shards together
  // are cut from it one after the other. What is random comes from order.seed and the epoch.
  virtual std::vector<std::int64_t> examples(const BatchOrder& order, std::int64_t epoch) const = 0;
};

// Draws examples with replacement, each in proportion to its weight (PyTorch's
// WeightedRandomSampler). An epoch has `draws` examples, as many as there are weights if it is 0.
// An image that is drawn again in an epoch is varied in another way. Throws ArgumentError unless
// there is a weight, all are finite and none is negative, their sum is positive and finite, and
// draws >= 0; and, in the source, for shuffle = false.
std::shared_ptr<const Sampler> weighted_sampler(const std::vector<double>& weights,
                                                std::int64_t draws = 0);

// A weight for each example with which all classes are drawn equally often: 1 / (the examples of
// its class). `labels` are class numbers, i64 or i32 [n], from 0. Of a data set, what
// Dataset::label() gives. Throws ArgumentError for other tensors and for negative labels.
std::vector<double> balanced_weights(const Tensor& labels);
std::vector<double> balanced_weights(const Dataset& dataset);

// Batches of examples of similar lengths: sequences that are padded to the longest of their batch
// are padded little. An epoch is shuffled, cut into pools of `pool` batches of all shards, each
// pool is sorted by length and cut into batches, and the full batches of the epoch come in a
// shuffled order; one that is not full comes last. With pool = 0 the whole epoch is one pool, whose
// batches are the most alike in length. Without shuffling batches go from short to long. Every
// example comes once, or is in the last batch that drop_remainder leaves out. Throws ArgumentError
// unless there is a length, none is negative, and pool >= 0.
std::shared_ptr<const Sampler> length_buckets(std::vector<std::int64_t> lengths,
                                              std::int64_t pool = 50);

}  // namespace mezzo::data
