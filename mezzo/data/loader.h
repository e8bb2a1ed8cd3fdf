// DataLoader: the images of a data set in shuffled batches, which other threads prefetch.
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

// One-hot labels, one value per class: `on` in the label's column and `off` in the others.
struct OneHot {
  float on = 1;
  float off = 0;
};

// The default number of threads that make images while the other cores train: a quarter of the
// cores, 1 to 8.
std::int64_t default_workers();

struct LoaderOptions {
  std::int64_t batch_size = 64;
  bool shuffle = true;          // a new order each epoch; otherwise 0, 1, 2, ...
  bool drop_remainder = false;  // leave out the last batch of an epoch if it is not full
  std::uint64_t seed = 0;       // determines the order and the randomness of images
  std::int64_t prefetch = 2;    // batches that the workers keep ready or in progress
  // Threads that make batches. With no workers or no prefetch, next() makes batches itself.
  std::int64_t workers = default_workers();
  std::optional<Normalization> normalization{};  // instead of the data set's own numbers
  // Batches in pinned memory, which a CUDA device copies asynchronously. UnsupportedError if there
  // is no CUDA device.
  bool pin_memory = false;
  // The device of the batches. A GPU copies the next batch during the current training step, if the
  // workers have it ready. UnsupportedError if there is no such device.
  Device device = kCpuDevice;
  DType image_dtype = DType::kF32;  // f32, or a lower precision
  DType label_dtype = DType::kI64;  // i64 or i32
  std::optional<OneHot> one_hot{};  // labels as f32[n, classes] instead
  // Mixes images and labels in pairs, within a shard's part of a batch; see mix.h. Labels are then
  // f32[n, classes].
  Mix mix{};
  Shard shard{};  // of batches shared by several processes
  // Chooses an epoch's images and their order; see sampler.h. Null: each image once.
  std::shared_ptr<const Sampler> sampler{};
};

// Images are [n, c, h, w] of image_dtype, channels-last; labels are [n] of label_dtype or f32[n,
// classes]. Batches are a function of (data set, options, position) alone: the same after a restart
// and for any number of threads. An image is transformed alike in whatever shard it is, but mixed
// only with images of its shard. next() rethrows what reading the data set threw, and throws
// UnsupportedError if the workers' threads cannot be started.
class DataLoader final : public BatchSource {
 public:
  // `dataset` must outlive the loader. Throws ArgumentError if batch_size, prefetch or workers is
  // out of range, if the images differ in size, if the normalization does not have one entry per
  // channel or has a deviation of 0, if a byte's value is not finite in image_dtype, or if with
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
  Tensor numbers_;                       // [channels, 256] of image_dtype: the value of each byte
  std::unique_ptr<BatchWorkers> ahead_;  // reads the members above, so it is destroyed first
  std::unique_ptr<BatchUpload> coming_;  // the next batch, if its copy to the device has begun
};

}  // namespace mezzo::data
