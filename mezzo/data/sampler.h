// Samplers: which examples an epoch has, and in what order, instead of each once in shuffled order.
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

// A sampler can be shared by any number of sources and never changes. Its examples must be a
// function of its own contents, the order and the epoch alone. Batches are then the same after a
// restart and in every process.
class Sampler {
 public:
  Sampler() = default;
  Sampler(const Sampler&) = delete;
  Sampler& operator=(const Sampler&) = delete;
  virtual ~Sampler() = default;

  // A description of the sampler, with a checksum of its contents. Checkpoints store it: a run
  // resumes only with a sampler of the same description.
  virtual std::string description() const = 0;
  // The number of examples in the set that the sampler is for.
  virtual std::int64_t set_size() const = 0;
  // The number of examples in an epoch, at least 1.
  virtual std::int64_t epoch_size() const { return set_size(); }
  // Throws ArgumentError for an order that the sampler does not support. Sources call it when they
  // are constructed.
  virtual void check(const BatchOrder& /*order*/) const {}
  // The epoch_size() examples of an epoch, each in [0, set_size()). Batches of all shards together
  // are consecutive parts of it. Randomness comes only from order.seed and the epoch.
  virtual std::vector<std::int64_t> examples(const BatchOrder& order, std::int64_t epoch) const = 0;
};

// Draws examples with replacement, in proportion to their weights (PyTorch's
// WeightedRandomSampler). An epoch has `draws` examples; 0 means as many as there are weights. An
// image that is drawn again in an epoch is transformed differently. Throws ArgumentError unless
// there is a weight, all are finite and none is negative, their sum is positive and finite, and
// draws >= 0. The source throws it for shuffle = false.
std::shared_ptr<const Sampler> weighted_sampler(const std::vector<double>& weights,
                                                std::int64_t draws = 0);

// A weight for each example with which all classes are drawn equally often: 1 / (the examples of
// its class). `labels` are class numbers, i64 or i32 [n], from 0; of a data set, those of
// Dataset::label(). Throws ArgumentError for other tensors and for negative labels.
std::vector<double> balanced_weights(const Tensor& labels);
std::vector<double> balanced_weights(const Dataset& dataset);

// Batches of examples of similar lengths, so that sequences padded to the longest of their batch
// need little padding. An epoch is shuffled and cut into pools of `pool` batches of all shards.
// Each pool is sorted by length and cut into batches. The epoch's full batches come in a shuffled
// order, followed by one that is not full. With pool = 0 the whole epoch is one pool, whose batches
// are the most alike in length. Without shuffling, batches go from short to long. Every example
// comes once, unless it is in the last batch and drop_remainder leaves that out. Throws
// ArgumentError unless there is a length, none is negative, and pool >= 0.
std::shared_ptr<const Sampler> length_buckets(std::vector<std::int64_t> lengths,
                                              std::int64_t pool = 50);

}  // namespace mezzo::data
