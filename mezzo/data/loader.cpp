#include "mezzo/data/loader.h"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <numeric>
#include <stop_token>
#include <thread>
#include <utility>

#include "mezzo/core/error.h"
#include "mezzo/data/stream.h"

namespace mezzo::data {
namespace {

constexpr std::string_view kOp = "loader";
constexpr std::size_t kByteValues = 256;

void check_options(const Dataset& dataset, const LoaderOptions& options) {
  check_arg(options.batch_size > 0, kOp, "the batch size must be positive: ", options.batch_size);
  check_arg(options.prefetch >= 0, kOp, "prefetch must not be negative: ", options.prefetch);
  check_arg(!options.drop_remainder || options.batch_size <= dataset.size(), kOp,
            "the batch is larger than the data set: ", options.batch_size, " of ", dataset.size(),
            " images, and incomplete batches are dropped. Use a batch size of at most ",
            dataset.size());
}

// What byte b of channel c becomes, at [c * 256 + b]. In f32 and in this order of operations, as
// other frameworks do it, so that the same image gives the same numbers.
std::vector<float> normalized_bytes(const Normalization& normalization, std::int64_t channels) {
  const auto& [mean, deviation] = normalization;
  const auto count = static_cast<std::size_t>(channels);
  check_arg(mean.size() == count && deviation.size() == count, kOp,
            "the normalization needs a mean and a deviation for each of ", count, " channels: got ",
            mean.size(), " and ", deviation.size());
  std::vector<float> numbers;
  numbers.reserve(count * kByteValues);
  for (std::size_t c = 0; c < count; ++c) {
    check_arg(deviation[c] > 0, kOp, "the deviation of a channel must be positive: ", deviation[c]);
    for (std::size_t byte = 0; byte < kByteValues; ++byte) {
      numbers.push_back((static_cast<float>(byte) / 255.0F - mean[c]) / deviation[c]);
    }
  }
  return numbers;
}

// Fisher-Yates: every order is equally likely.
void shuffle(std::vector<std::int64_t>& order, Generator random) {
  for (std::size_t left = order.size(); left > 1; --left) {
    std::swap(order[left - 1], order[random.below(left)]);
  }
}

}  // namespace

// A thread that makes the batches of one epoch and keeps a few ready. It uses no parallel loops:
// the cores belong to the training step.
class DataLoader::Prefetcher {
 public:
  Prefetcher(const DataLoader& loader, LoaderPosition first)
      : capacity_(static_cast<std::size_t>(loader.options_.prefetch)),
        thread_([this, &loader, first](const std::stop_token& stop) { run(loader, first, stop); }) {
  }

  // Waits for the next batch. Rethrows what making it threw.
  Batch take() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return !ready_.empty() || error_ != nullptr; });
    if (ready_.empty()) std::rethrow_exception(error_);
    Batch batch = std::move(ready_.front());
    ready_.pop_front();
    lock.unlock();
    changed_.notify_all();
    return batch;
  }

 private:
  void run(const DataLoader& loader, LoaderPosition position, const std::stop_token& stop) {
    try {
      for (; position.step < loader.steps_per_epoch(); ++position.step) {
        if (!put(loader.make_batch(position), stop)) return;
      }
    } catch (...) {
      const std::lock_guard lock(mutex_);
      error_ = std::current_exception();
    }
    changed_.notify_all();
  }

  // Waits for room. False when asked to stop.
  bool put(Batch batch, const std::stop_token& stop) {
    std::unique_lock lock(mutex_);
    if (!changed_.wait(lock, stop, [this] { return ready_.size() < capacity_; })) return false;
    ready_.push_back(std::move(batch));
    lock.unlock();
    changed_.notify_all();
    return !stop.stop_requested();
  }

  std::size_t capacity_;
  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::deque<Batch> ready_;
  std::exception_ptr error_;
  std::jthread thread_;  // last: it stops before what it uses goes
};

DataLoader::DataLoader(const Dataset& dataset, LoaderOptions options)
    : dataset_(dataset), options_(std::move(options)) {
  check_options(dataset_, options_);
  numbers_ = normalized_bytes(options_.normalization.value_or(dataset_.normalization()),
                              dataset_.image_shape()[0]);
}

DataLoader::~DataLoader() = default;

std::int64_t DataLoader::steps_per_epoch() const {
  const std::int64_t full = dataset_.size() / options_.batch_size;
  const bool remainder = dataset_.size() % options_.batch_size != 0;
  return full + (remainder && !options_.drop_remainder ? 1 : 0);
}

std::int64_t DataLoader::images_per_epoch() const {
  return std::min(dataset_.size(), steps_per_epoch() * options_.batch_size);
}

void DataLoader::seek(LoaderPosition position) {
  check_arg(position.epoch >= 0 && position.step >= 0 && position.step <= steps_per_epoch(), kOp,
            "no such position: epoch ", position.epoch, ", step ", position.step, ", with ",
            steps_per_epoch(), " steps per epoch");
  ahead_.reset();
  started_ = false;
  position_ = position;
}

void DataLoader::start_epoch() {
  order_.resize(static_cast<std::size_t>(dataset_.size()));
  std::iota(order_.begin(), order_.end(), 0);
  if (options_.shuffle) {
    const auto epoch = static_cast<std::uint64_t>(position_.epoch);
    shuffle(order_, stream_of(options_.seed, epoch, kOrderStream));
  }
  if (options_.prefetch > 0) ahead_ = std::make_unique<Prefetcher>(*this, position_);
  started_ = true;
}

bool DataLoader::next(Batch& batch) {
  batch = {};  // before waiting, so that its memory can serve again
  if (position_.step >= steps_per_epoch()) {
    seek({position_.epoch + 1, 0});
    return false;
  }
  if (!started_) start_epoch();
  batch = ahead_ != nullptr ? ahead_->take() : make_batch(position_);
  ++position_.step;
  return true;
}

Batch DataLoader::make_batch(LoaderPosition position) const {
  const std::int64_t first = position.step * options_.batch_size;
  const std::int64_t count = std::min(options_.batch_size, dataset_.size() - first);
  const Shape image = dataset_.image_shape();
  Batch batch;
  batch.images = empty({count, image[0], image[1], image[2]}, DType::kF32, Format::kChannelsLast);
  batch.labels = empty({count}, DType::kI64);
  batch.indices.assign(order_.begin() + first, order_.begin() + first + count);
  auto* numbers = batch.images.mutable_data<float>();
  auto* labels = batch.labels.mutable_data<std::int64_t>();
  std::vector<std::uint8_t> pixels(static_cast<std::size_t>(image.numel()));
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t index = batch.indices[static_cast<std::size_t>(i)];
    Generator random = stream_of(options_.seed, static_cast<std::uint64_t>(position.epoch),
                                 static_cast<std::uint64_t>(index));
    labels[i] = dataset_.read(index, random, pixels);
    normalize(pixels, numbers + i * image.numel());
  }
  return batch;
}

void DataLoader::normalize(std::span<const std::uint8_t> pixels, float* out) const {
  const std::size_t channels = numbers_.size() / kByteValues;
  for (std::size_t i = 0; i < pixels.size(); i += channels) {
    for (std::size_t c = 0; c < channels; ++c) {
      out[i + c] = numbers_[c * kByteValues + pixels[i + c]];
    }
  }
}

}  // namespace mezzo::data
