#include "mezzo/data/batch_source.h"

#include <algorithm>
#include <limits>
#include <string_view>
#include <utility>

#include "mezzo/core/error.h"
#include "mezzo/data/draw.h"
#include "mezzo/data/shuffle.h"
#include "mezzo/data/stream.h"

namespace mezzo::data {
namespace {

constexpr std::string_view kSourceOp = "loader";

void check_sampler(const BatchOrder& order) {
  const Sampler& sampler = *order.sampler;
  check_arg(sampler.set_size() == order.examples, kSourceOp, "the ", sampler.description(),
            " is for a set of ", sampler.set_size(), " examples, and this one has ", order.examples,
            ". Make the sampler for this set");
  check_arg(sampler.epoch_size() >= 1, kSourceOp, "the ", sampler.description(), " gives ",
            sampler.epoch_size(), " examples. Give at least one");
  sampler.check(order);
}

void check_sampled(const BatchOrder& order, const std::vector<std::int64_t>& examples) {
  check_arg(std::ssize(examples) == order.epoch_size(), kSourceOp, "the ",
            order.sampler->description(), " gave ", examples.size(), " examples for an epoch of ",
            order.epoch_size(), ". Correct the sampler");
  for (const std::int64_t example : examples) {
    check_arg(example >= 0 && example < order.examples, kSourceOp, "the ",
              order.sampler->description(), " gave example ", example, " of a set of ",
              order.examples, ". Correct the sampler");
  }
}

// How often each example has already occurred.
std::vector<std::int64_t> repeats_among(const std::vector<std::int64_t>& examples,
                                        std::int64_t set_size) {
  std::vector<std::int64_t> counts(static_cast<std::size_t>(set_size));
  std::vector<std::int64_t> repeats;
  repeats.reserve(examples.size());
  for (const std::int64_t example : examples) {
    repeats.push_back(counts[static_cast<std::size_t>(example)]++);
  }
  return repeats;
}

}  // namespace

Shard shard_of(const distributed::ProcessGroup& processes) {
  return {.index = processes.rank(), .count = processes.size()};
}

BatchSource::BatchSource(BatchOrder of) : order_(std::move(of)) {
  const BatchOrder& order = order_;
  check_arg(order.examples >= 1, kSourceOp, "the data set has ", order.examples,
            " examples. Give it at least one");
  check_arg(order.batch_size > 0, kSourceOp, "the batch size must be positive: ", order.batch_size);
  check_arg(
      order.shard.count >= 1 && order.shard.index >= 0 && order.shard.index < order.shard.count,
      kSourceOp, "there is no shard ", order.shard.index, " of ", order.shard.count,
      ". They count from 0");
  check_arg(order.batch_size <= std::numeric_limits<std::int64_t>::max() / order.shard.count,
            kSourceOp, "a batch of ", order.shard.count, " times ", order.batch_size,
            " examples is too large to be counted. Use smaller batches");
  check_arg(order.draws >= 0, kSourceOp, "draws must not be negative: ", order.draws);
  if (order.sampler != nullptr) check_sampler(order);
  const std::int64_t most = order.epoch_size() / order.shard.count;
  check_arg(!order.drop_remainder || order.batch_size <= most, kSourceOp,
            "the batch is larger than the data set: ", order.batch_size,
            order.shard.count > 1 ? concat(" in each of ", order.shard.count, " shards,") : "",
            " of ", order.epoch_size(), " examples, and incomplete batches are dropped. Use ",
            most > 0 ? concat("a batch size of at most ", most) : "fewer shards");
}

std::int64_t BatchSource::steps_per_epoch() const {
  const std::int64_t full = order_.epoch_size() / order_.step_size();
  const bool has_remainder = !order_.drop_remainder && first_of(full) < order_.epoch_size();
  return full + (has_remainder ? 1 : 0);
}

std::int64_t BatchSource::examples_per_epoch() const {
  const std::int64_t steps = steps_per_epoch();
  return steps == 0 ? 0 : (steps - 1) * order_.batch_size + last_batch_size();
}

std::int64_t BatchSource::last_batch_size() const {
  const std::int64_t steps = steps_per_epoch();
  return steps == 0 ? 0 : std::min(order_.batch_size, order_.epoch_size() - first_of(steps - 1));
}

void BatchSource::seek(LoaderPosition position) {
  check_arg(position.epoch >= 0 && position.step >= 0 && position.step <= steps_per_epoch(),
            kSourceOp, "no such position: epoch ", position.epoch, ", step ", position.step,
            ", with ", steps_per_epoch(), " steps per epoch. Seek to a batch within these");
  leave_position();
  started_ = false;
  position_ = position;
}

bool BatchSource::next(Batch& batch) {
  batch = {};  // before waiting, so that its memory can be reused
  if (position_.step >= steps_per_epoch()) {
    seek({position_.epoch + 1, 0});
    return false;
  }
  if (!started_) {
    order_epoch();
    begin_epoch();
    started_ = true;  // last: the next call retries what failed
  }
  try {
    batch = take_batch();
  } catch (...) {
    seek(position_);  // what was prefetched would fail for good
    throw;
  }
  ++position_.step;
  return true;
}

void BatchSource::order_epoch() {
  if (order_.sampler != nullptr) {
    indices_ = order_.sampler->examples(order_, position_.epoch);
    check_sampled(order_, indices_);
    repeats_ = repeats_among(indices_, order_.examples);
    return;
  }
  if (order_.draws > 0) return;  // indices_of() draws them
  indices_ = count_to(order_.examples);
  if (!order_.shuffle) return;
  const auto epoch = static_cast<std::uint64_t>(position_.epoch);
  shuffle(indices_, stream_of(order_.seed, epoch, kOrderStream));
}

std::vector<std::int64_t> BatchSource::drawn(std::int64_t first, std::int64_t count) const {
  std::vector<std::int64_t> examples;
  for (std::int64_t place = first; place < first + count; ++place) {
    Generator random = stream_of(order_.seed, static_cast<std::uint64_t>(position_.epoch),
                                 static_cast<std::uint64_t>(place));
    examples.push_back(below(random, order_.examples));
  }
  return examples;
}

std::vector<std::int64_t> BatchSource::indices_of(std::int64_t step) const {
  const std::int64_t first = first_of(step);
  const std::int64_t count = std::min(order_.batch_size, order_.epoch_size() - first);
  if (order_.sampler == nullptr && order_.draws > 0) return drawn(first, count);
  return {indices_.begin() + first, indices_.begin() + first + count};
}

}  // namespace mezzo::data
