// DataLoader: the images of a data set in shuffled batches, made ready ahead by other threads.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "mezzo/core/tensor.h"
#include "mezzo/data/batch_source.h"
#include "mezzo/data/dataset.h"
#include "mezzo/data/mix.h"

namespace mezzo::data {

class BatchUpload;
class BatchWorkers;

// Labels as rows of numbers, one per class: `on` in the label's own column and `off` in the others.
struct OneHot {
  float on = 1;
  float off = 0;
};

// As many threads as make images while the other cores train: a quarter of them, 1 to 8.
std::int64_t default_workers();

struct LoaderOptions {
  std::int64_t batch_size = 64;
  bool shuffle = true;          // a new order each epoch; otherwise 0, 1, 2, ...
  bool drop_remainder = false;  // leave out the last batch of an epoch if it is not full
  std::uint64_t seed = 0;       // the order, and what is random about images, depend on it
  std::int64_t prefetch = 2;    // batches kept ready, or in the making, by the workers
  // Threads that make batches; with 0 of them, or no prefetch, next() makes them itself.
  std::int64_t workers = default_workers();
  std::optional<Normalization> normalization{};  // instead of the data set's own numbers
  // Batches in pinned memory, which a CUDA card copies while the host goes on. UnsupportedError if
  // there is no card.
  bool pin_memory = false;
  // Where batches are handed out. On a card, the next one is copied there beside the training step
  // on this one, if workers have it ready. UnsupportedError if there is no such device.
  Device device = kCpuDevice;
  DType image_dtype = DType::kF32;  // f32, bf16 or f16
  DType label_dtype = DType::kI64;  // i64 or i32
  std::optional<OneHot> one_hot{};  // labels as f32[n, classes] instead
  // Images and labels mixed in pairs, within a shard's part of a batch: see mix.h. Labels are
  // f32[n, classes] then.
  Mix mix{};
  Shard shard{};  // of batches that several processes share
  // Which images an epoch has, and in what order: see sampler.h. Null: each once.
  std::shared_ptr<const Sampler> sampler{};
};

// Images are [n, c, h, w] of image_dtype, channels-last, labels [n] of label_dtype or
// f32[n, classes]. Batches are a function of (data set, options, position) alone: the same after a
// restart, and whatever the number of threads; an image is varied alike in whatever shard it is,
// but mixed with those of its own. next() rethrows what reading the data set threw, and throws
// UnsupportedError if the workers' threads cannot be started.
class DataLoader final : public BatchSource {
 public:
  // `dataset` must outlive the loader. Throws ArgumentError if batch_size, prefetch or workers is
  // out of range, if the images differ in size, if the normalization has not one entry per channel
  // or a deviation of 0, if a number that a byte becomes is not finite in image_dtype, or if with
  // drop_remainder the batch is larger than the set.
  DataLoader(const Dataset& dataset, LoaderOptions options);
  ~DataLoader() override;

  const LoaderOptions& options() const { return options_; }

 private:
  Batch take_batch() override;
  void begin_epoch() override;
  void leave_position() override;
  Batch make_batch();
  void send_next_ahead();
  Tensor room_for(const Shape& shape, DType dtype, Format format = Format::kContiguous) const;
  Batch open_batch(std::int64_t step) const;
  void fill_batch(Batch& batch, LoaderPosition at, std::int64_t begin, std::int64_t end) const;
  void finish_batch(Batch& batch, LoaderPosition at) const;
  void write_label(std::int64_t label, std::int64_t row, const Tensor& labels) const;

  const Dataset& dataset_;
  LoaderOptions options_;
  Tensor numbers_;                       // [channels, 256] of image_dtype: what each byte becomes
  std::unique_ptr<BatchWorkers> ahead_;  // reads the above, so it goes first
  std::unique_ptr<BatchUpload> coming_;  // the next batch, if it is on its way to the device
};

}  // namespace mezzo::data
