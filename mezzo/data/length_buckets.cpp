// Batches of examples of similar lengths.
#include <algorithm>

#include "mezzo/core/error.h"
#include "mezzo/data/batch_source.h"
#include "mezzo/data/sampler.h"
#include "mezzo/data/shuffle.h"
#include "mezzo/data/stream.h"
#include "mezzo/io/crc32c.h"

namespace mezzo::data {
namespace {

constexpr std::string_view kBucketsOp = "length_buckets";

// The minor number of the stream from which the order of an epoch's batches is drawn; never an
// index.
constexpr std::uint64_t kBatchesStream = kOrderStream - 1;

class LengthBuckets final : public Sampler {
 public:
  LengthBuckets(std::vector<std::int64_t> lengths, std::int64_t pool)
      : lengths_(std::move(lengths)), pool_(pool) {
    check_arg(!lengths_.empty(), kBucketsOp, "there are no lengths. Give one for each example");
    check_arg(pool_ >= 0, kBucketsOp,
              "the number of batches in a pool must not be negative: ", pool_);
    const auto shortest = std::ranges::min_element(lengths_);
    check_arg(*shortest >= 0, kBucketsOp, "length ", shortest - lengths_.begin(), " is ", *shortest,
              ". Lengths must not be negative");
  }

  std::string description() const override {
    return concat("length buckets (pools of ", pool_, " batches, ", lengths_.size(),
                  " lengths with the checksum ", io::crc32c(std::as_bytes(std::span(lengths_))),
                  ")");
  }
  std::int64_t set_size() const override { return std::ssize(lengths_); }

  std::vector<std::int64_t> examples(const BatchOrder& order, std::int64_t epoch) const override {
    std::vector<std::int64_t> all = count_to(set_size());
    if (!order.shuffle) {
      sort(all);
      return all;
    }
    const auto number = static_cast<std::uint64_t>(epoch);
    shuffle(all, stream_of(order.seed, number, kOrderStream));
    sort_pools(all, order.step_size());
    return in_batches(all, order.step_size(), stream_of(order.seed, number, kBatchesStream));
  }

 private:
  // Examples of equal length keep their order.
  void sort(std::span<std::int64_t> examples) const {
    std::ranges::stable_sort(examples, {}, [this](std::int64_t example) {
      return lengths_[static_cast<std::size_t>(example)];
    });
  }

  void sort_pools(std::span<std::int64_t> all, std::int64_t batch) const {
    // Compared by division, since the product might overflow.
    const bool is_one = pool_ == 0 || pool_ > set_size() / batch;
    const std::size_t size = is_one ? all.size() : static_cast<std::size_t>(pool_ * batch);
    for (std::size_t first = 0; first < all.size(); first += size) {
      sort(all.subspan(first, std::min(size, all.size() - first)));
    }
  }

  // Full batches in random order, followed by the remainder.
  static std::vector<std::int64_t> in_batches(const std::vector<std::int64_t>& all,
                                              std::int64_t batch, Generator random) {
    std::vector<std::int64_t> batches = count_to(std::ssize(all) / batch);
    shuffle(batches, random);
    std::vector<std::int64_t> result;
    result.reserve(all.size());
    for (const std::int64_t b : batches) {
      result.insert(result.end(), all.begin() + b * batch, all.begin() + (b + 1) * batch);
    }
    result.insert(result.end(), all.begin() + std::ssize(result), all.end());
    return result;
  }

  std::vector<std::int64_t> lengths_;
  std::int64_t pool_;
};

}  // namespace

std::shared_ptr<const Sampler> length_buckets(std::vector<std::int64_t> lengths,
                                              std::int64_t pool) {
  return std::make_shared<LengthBuckets>(std::move(lengths), pool);
}

}  // namespace mezzo::data
