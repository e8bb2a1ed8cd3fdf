// The sampler that draws examples by weight.
#include <algorithm>
#include <cmath>
#include <map>

#include "mezzo/core/error.h"
#include "mezzo/data/batch_source.h"
#include "mezzo/data/dataset.h"
#include "mezzo/data/sampler.h"
#include "mezzo/data/stream.h"
#include "mezzo/io/crc32c.h"

namespace mezzo::data {
namespace {

constexpr std::string_view kSamplerOp = "weighted_sampler";

// Uses 53 random bits. With the 24 bits of a float, some examples of a set of more than 16 million,
// or of small weights, could never be drawn.
double unit(Generator& random) {
  const std::uint64_t high = random.next();
  const std::uint64_t bits = high << 32 | random.next();
  return static_cast<double>(bits >> 11) * 0x1p-53;
}

class WeightedSampler final : public Sampler {
 public:
  WeightedSampler(const std::vector<double>& weights, std::int64_t draws)
      : draws_(draws == 0 ? std::ssize(weights) : draws),
        checksum_(io::crc32c(std::as_bytes(std::span(weights)))) {
    check_arg(!weights.empty(), kSamplerOp, "there are no weights. Give one for each example");
    check_arg(draws >= 0, kSamplerOp, "the number of draws must not be negative: ", draws);
    double sum = 0;
    for (std::size_t i = 0; i < weights.size(); ++i) {
      check_arg(weights[i] >= 0 && std::isfinite(weights[i]), kSamplerOp, "weight ", i, " is ",
                weights[i], ". Weights must be finite and not negative");
      sum += weights[i];
      sums_.push_back(sum);
    }
    check_arg(sum > 0 && std::isfinite(sum), kSamplerOp, "the weights add up to ", sum,
              ". Their sum must be positive and finite");
  }

  std::string description() const override {
    return concat("weighted sampler (", draws_, " draws from ", sums_.size(),
                  " weights with the checksum ", checksum_, ")");
  }
  std::int64_t set_size() const override { return std::ssize(sums_); }
  std::int64_t epoch_size() const override { return draws_; }

  void check(const BatchOrder& order) const override {
    check_arg(order.shuffle, kSamplerOp,
              "examples that are drawn come in a random order, but shuffle is false. Leave the "
              "sampler out, or set shuffle to true");
  }

  std::vector<std::int64_t> examples(const BatchOrder& order, std::int64_t epoch) const override {
    Generator random = stream_of(order.seed, static_cast<std::uint64_t>(epoch), kOrderStream);
    std::vector<std::int64_t> drawn(static_cast<std::size_t>(draws_));
    for (std::int64_t& example : drawn) example = at(unit(random) * sums_.back());
    return drawn;
  }

 private:
  // The first example whose cumulative sum is greater than `place`: an example of weight 0 adds
  // nothing and is never chosen. A product rounded up to the total belongs to the last example with
  // a weight.
  std::int64_t at(double place) const {
    auto found = std::ranges::upper_bound(sums_, place);
    if (found == sums_.end()) found = std::ranges::lower_bound(sums_, sums_.back());
    return found - sums_.begin();
  }

  std::int64_t draws_;
  std::uint32_t checksum_;
  std::vector<double> sums_;  // cumulative: of the weights up to and including each
};

std::vector<double> balanced(const std::vector<std::int64_t>& labels) {
  std::map<std::int64_t, double> counts;
  for (const std::int64_t label : labels) {
    check_arg(label >= 0, "balanced_weights", "a label is ", label, ". Classes count from 0");
    ++counts[label];
  }
  std::vector<double> weights;
  weights.reserve(labels.size());
  for (const std::int64_t label : labels) weights.push_back(1 / counts[label]);
  return weights;
}

}  // namespace

std::shared_ptr<const Sampler> weighted_sampler(const std::vector<double>& weights,
                                                std::int64_t draws) {
  return std::make_shared<WeightedSampler>(weights, draws);
}

std::vector<double> balanced_weights(const Tensor& labels) {
  check_arg(labels.defined() && labels.rank() == 1 &&
                (labels.dtype() == DType::kI64 || labels.dtype() == DType::kI32),
            "balanced_weights", "labels are class numbers, i64 or i32 [n]; here is ", labels);
  return balanced(labels.to_vector<std::int64_t>());
}

std::vector<double> balanced_weights(const Dataset& dataset) {
  return balanced(labels_of(dataset));
}

}  // namespace mezzo::data
