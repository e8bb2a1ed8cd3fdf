// DataLoader: the images of a data set in shuffled batches, made ready ahead by a thread.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "mezzo/core/tensor.h"
#include "mezzo/data/dataset.h"

namespace mezzo::data {

struct LoaderOptions {
  std::int64_t batch_size = 64;
  bool shuffle = true;          // a new order each epoch; otherwise 0, 1, 2, ...
  bool drop_remainder = false;  // leave out the last batch of an epoch if it is not full
  std::uint64_t seed = 0;       // the order, and what is random about images, depend on it
  std::int64_t prefetch = 2;    // batches kept ready by a thread; 0 makes each when asked for
  std::optional<Normalization> normalization{};  // instead of the data set's own
};

// A place in the sequence of batches.
struct LoaderPosition {
  std::int64_t epoch = 0;
  std::int64_t step = 0;  // within the epoch

  bool operator==(const LoaderPosition&) const = default;
};

struct Batch {
  Tensor images{};                      // f32[n, c, h, w], channels-last, normalized
  Tensor labels{};                      // i64[n]
  std::vector<std::int64_t> indices{};  // of the images in the data set
};

// Batches are a function of (data set, options, position) alone: the same after a restart, and
// whatever the number of threads. One consumer at a time.
class DataLoader {
 public:
  // `dataset` must outlive the loader. Throws ArgumentError if batch_size or prefetch is out of
  // range, if the normalization has not one entry per channel or a deviation of 0, or if with
  // drop_remainder the batch is larger than the set.
  DataLoader(const Dataset& dataset, LoaderOptions options);
  DataLoader(const DataLoader&) = delete;
  DataLoader& operator=(const DataLoader&) = delete;
  ~DataLoader();

  // The next batch of this epoch. False, with `batch` empty, at the end of the epoch: the call
  // after that gives the first batch of the next epoch. Rethrows what reading the data set threw.
  bool next(Batch& batch);

  // Of the batch that next() gives next; after the last one {epoch, steps_per_epoch()} until next()
  // has returned false.
  LoaderPosition position() const { return position_; }
  // Goes there, from anywhere. Throws ArgumentError unless epoch >= 0 and
  // 0 <= step <= steps_per_epoch().
  void seek(LoaderPosition position);

  std::int64_t steps_per_epoch() const;
  // Images that an epoch gives: the size of the set, less what drop_remainder leaves out.
  std::int64_t images_per_epoch() const;
  const LoaderOptions& options() const { return options_; }

 private:
  class Prefetcher;

  void start_epoch();
  Batch make_batch(LoaderPosition position) const;
  void normalize(std::span<const std::uint8_t> pixels, float* out) const;

  const Dataset& dataset_;
  LoaderOptions options_;
  LoaderPosition position_;
  bool started_ = false;               // order_ is that of the epoch
  std::vector<std::int64_t> order_;    // of the images in this epoch
  std::vector<float> numbers_;         // [channels, 256]: what each byte becomes
  std::unique_ptr<Prefetcher> ahead_;  // reads the above, so it goes first
};

}  // namespace mezzo::data
