#include "mezzo/data/loader.h"

#include <algorithm>
#include <cmath>
#include <thread>
#include <utility>

#include "mezzo/core/device_backend.h"
#include "mezzo/core/error.h"
#include "mezzo/core/upload.h"
#include "mezzo/data/batch_workers.h"
#include "mezzo/data/stream.h"

namespace mezzo::data {
namespace {

constexpr std::string_view kLoaderOp = "loader";
constexpr std::int64_t kMostWorkers = 1024;

void check_options(const Dataset& dataset, const LoaderOptions& options) {
  check_arg(options.prefetch >= 0, kLoaderOp, "prefetch must not be negative: ", options.prefetch);
  check_arg(options.workers >= 0 && options.workers <= kMostWorkers, kLoaderOp,
            "the number of workers must be from 0 to ", kMostWorkers, ": ", options.workers);
  check_arg(options.label_dtype == DType::kI64 || options.label_dtype == DType::kI32, kLoaderOp,
            "labels cannot be ", name_of(options.label_dtype), ". Use i64 or i32");
  if (!options.device.is_cpu()) static_cast<void>(backend_of(options.device));
  if (options.pin_memory && !has_device({DeviceType::kCuda, 0})) {
    fail<UnsupportedError>(
        kLoaderOp, "there is no CUDA GPU to copy to from pinned memory. Leave pin_memory out");
  }
  check_mix(options.mix);
  const Shape images = dataset.image_shape();
  check_arg(images.rank() == 3, kLoaderOp,
            "image_shape() must be [channels, height, width], it is ", images,
            ". Correct the data set");
  check_arg(images.numel() > 0, kLoaderOp,
            "the images differ in size. Apply a Resize with map() first");
}

// Mixing requires one-hot labels.
LoaderOptions completed(LoaderOptions options) {
  if (options.mix.is_on() && !options.one_hot.has_value()) options.one_hot = OneHot{};
  return options;
}

// `numbers`, [channels, 256], as a tensor of that dtype.
Tensor number_table(const std::vector<float>& numbers, DType dtype) {
  check_arg(is_trainable(dtype), kLoaderOp, "images cannot be ", name_of(dtype), ". Use ",
            trainable_dtypes());
  const auto size = static_cast<std::int64_t>(numbers.size());
  Tensor table = empty({size / kByteValues, kByteValues}, dtype);
  const auto convert = [&]<class T>() {
    T* out = table.mutable_data<T>();
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      out[i] = T(numbers[i]);
      check_arg(std::isfinite(static_cast<float>(out[i])), kLoaderOp, "byte ", i % kByteValues,
                " of channel ", i / kByteValues, " becomes ", numbers[i],
                ", which is not finite in ", name_of(dtype),
                ". Check how the images are rescaled and normalized");
    }
  };
  dtype == DType::kF32 ? convert.operator()<float>() : visit_lower_dtype(dtype, convert);
  return table;
}

// Looks bytes up in the table, whose elements are copied as bit patterns. kChannels 0: any number.
template <std::int64_t kChannels, class Bits>
void look_up(std::span<const std::uint8_t> pixels, const Bits* table, std::int64_t channels,
             Bits* out) {
  const auto step = static_cast<std::size_t>(kChannels == 0 ? channels : kChannels);
  for (std::size_t i = 0; i < pixels.size(); i += step) {
    for (std::size_t c = 0; c < step; ++c) out[i + c] = table[c * kByteValues + pixels[i + c]];
  }
}

// Writes image `row` of the batch.
template <class Bits>
void write_numbers(std::span<const std::uint8_t> pixels, const Tensor& numbers, std::int64_t row,
                   const Tensor& images) {
  const auto* table = static_cast<const Bits*>(numbers.raw_data());
  auto* out = static_cast<Bits*>(images.mutable_raw_data()) +
              row * static_cast<std::int64_t>(pixels.size());
  switch (numbers.size(0)) {
    case 1: return look_up<1>(pixels, table, 1, out);
    case 3: return look_up<3>(pixels, table, 3, out);
    default: return look_up<0>(pixels, table, numbers.size(0), out);
  }
}

}  // namespace

// A batch whose copy to a device has begun.
class BatchUpload {
 public:
  BatchUpload(Batch batch, Device device)
      : images_(batch.images, device),
        labels_(batch.labels, device),
        indices_(std::move(batch.indices)) {}

  Batch take() {
    return {.images = images_.take(), .labels = labels_.take(), .indices = std::move(indices_)};
  }

 private:
  Upload images_;
  Upload labels_;
  std::vector<std::int64_t> indices_;
};

std::int64_t default_workers() {
  return std::clamp<std::int64_t>(std::thread::hardware_concurrency() / 4, 1, 8);
}

DataLoader::DataLoader(const Dataset& dataset, LoaderOptions options)
    : BatchSource({.examples = dataset.size(),
                   .batch_size = options.batch_size,
                   .shuffle = options.shuffle,
                   .drop_remainder = options.drop_remainder,
                   .seed = options.seed,
                   .shard = options.shard,
                   .sampler = options.sampler}),
      dataset_(dataset),
      options_(completed(std::move(options))) {
  check_options(dataset_, options_);
  const std::int64_t channels = dataset_.image_shape()[0];
  numbers_ = number_table(options_.normalization.has_value()
                              ? numbers_of(*options_.normalization, channels)
                              : dataset_.numbers(),
                          options_.image_dtype);
}

DataLoader::~DataLoader() = default;

void DataLoader::leave_position() {
  coming_.reset();
  ahead_.reset();
}

void DataLoader::begin_epoch() {
  if (options_.prefetch == 0 || options_.workers == 0) return;
  const LoaderPosition from = position();
  ahead_ = std::make_unique<BatchWorkers>(
      BatchWorkers::Plan{.first = from.step,
                         .end = steps_per_epoch(),
                         .ahead = options_.prefetch,
                         .workers = options_.workers,
                         .open = [this](std::int64_t step) { return open_batch(step); },
                         .fill =
                             [this, epoch = from.epoch](Batch& batch, std::int64_t step,
                                                        std::int64_t begin, std::int64_t end) {
                               fill_batch(batch, {epoch, step}, begin, end);
                             },
                         .finish =
                             [this, epoch = from.epoch](Batch& batch, std::int64_t step) {
                               finish_batch(batch, {epoch, step});
                             }});
}

Batch DataLoader::take_batch() {
  if (coming_ == nullptr) {
    coming_ = std::make_unique<BatchUpload>(make_batch(), options_.device);
  }
  Batch batch = std::exchange(coming_, nullptr)->take();
  send_next_ahead();
  return batch;
}

// Makes the next batch on the host.
Batch DataLoader::make_batch() {
  if (ahead_ != nullptr) return ahead_->take();
  Batch made = open_batch(position().step);
  fill_batch(made, position(), 0, static_cast<std::int64_t>(made.indices.size()));
  finish_batch(made, position());
  return made;
}

// Queues the copy before the step on the current batch. Without workers, or if they are late, the
// step does not wait for the next batch to be made.
void DataLoader::send_next_ahead() {
  if (options_.device.is_cpu() || ahead_ == nullptr) return;
  const Batch* next = ahead_->ready();
  if (next == nullptr) return;
  try {
    coming_ = std::make_unique<BatchUpload>(*next, options_.device);
  } catch (const DeviceError&) {
    return;  // for example no memory for both: it is sent when next() needs it
  }
  ahead_->take();
}

Tensor DataLoader::room_for(const Shape& shape, DType dtype, Format format) const {
  const bool is_pinned = options_.pin_memory || !options_.device.is_cpu();
  return is_pinned ? empty_pinned(shape, dtype, format) : empty(shape, dtype, format);
}

Batch DataLoader::open_batch(std::int64_t step) const {
  const Shape image = dataset_.image_shape();
  Batch batch{.indices = indices_of(step)};
  const auto count = static_cast<std::int64_t>(batch.indices.size());
  batch.images =
      room_for({count, image[0], image[1], image[2]}, options_.image_dtype, Format::kChannelsLast);
  batch.labels = options_.one_hot.has_value()
                     ? room_for({count, dataset_.num_classes()}, DType::kF32)
                     : room_for({count}, options_.label_dtype);
  return batch;
}

void DataLoader::fill_batch(Batch& batch, LoaderPosition at, std::int64_t begin,
                            std::int64_t end) const {
  std::vector<std::uint8_t> pixels(static_cast<std::size_t>(dataset_.image_shape().numel()));
  for (std::int64_t i = begin; i < end; ++i) {
    const std::int64_t index = batch.indices[static_cast<std::size_t>(i)];
    // An image that is repeated in an epoch is transformed differently.
    const std::int64_t variant = index + repeats_of(at.step, i) * dataset_.size();
    Generator random = stream_of(options_.seed, static_cast<std::uint64_t>(at.epoch),
                                 static_cast<std::uint64_t>(variant));
    const std::int64_t label = dataset_.read(index, random, pixels);
    if (label < 0 || label >= dataset_.num_classes()) {
      fail<ArgumentError>("loader", "the label of ", dataset_.describe(index), " is ", label,
                          ", and there are ", dataset_.num_classes(),
                          " classes. read() must give one of them");
    }
    write_label(label, i, batch.labels);
    if (options_.image_dtype == DType::kF32) {
      write_numbers<std::uint32_t>(pixels, numbers_, i, batch.images);
    } else {
      write_numbers<std::uint16_t>(pixels, numbers_, i, batch.images);
    }
  }
}

void DataLoader::finish_batch(Batch& batch, LoaderPosition at) const {
  if (options_.mix.is_on()) mix_batch(options_.mix, options_.seed, at, options_.shard, batch);
}

void DataLoader::write_label(std::int64_t label, std::int64_t row, const Tensor& labels) const {
  if (options_.one_hot.has_value()) {
    const std::int64_t classes = labels.size(1);
    float* out = labels.mutable_data<float>() + row * classes;
    std::fill_n(out, classes, options_.one_hot->off);
    out[label] = options_.one_hot->on;
  } else if (options_.label_dtype == DType::kI32) {
    labels.mutable_data<std::int32_t>()[row] = static_cast<std::int32_t>(label);
  } else {
    labels.mutable_data<std::int64_t>()[row] = label;
  }
}

}  // namespace mezzo::data
