// Tests samplers: their draws, and that all sources follow them, from any position and in shards.
#include "mezzo/data/sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mezzo/data/loader.h"
#include "mezzo/data/pipeline.h"
#include "mezzo/data/tensor_batches.h"
#include "tests/unit/data/batches.h"
#include "tests/unit/data/small_set.h"
#include "tests/unit/message_of.h"

namespace mezzo::data {
namespace {

using testing::HasSubstr;

using SamplerOf = std::shared_ptr<const Sampler>;

Rows some_lengths(std::int64_t count) {
  Generator random(9);
  Rows lengths;
  for (std::int64_t i = 0; i < count; ++i) {
    lengths.push_back(static_cast<std::int64_t>(random.below(40)));
  }
  return lengths;
}

// One sampler of each kind for a set of that size.
std::vector<SamplerOf> samplers(std::int64_t size) {
  std::vector<double> weights(static_cast<std::size_t>(size), 1);
  weights[1] = 5;
  return {weighted_sampler(weights), weighted_sampler(weights, size / 2),
          weighted_sampler(weights, 2 * size + 1), length_buckets(some_lengths(size), 2),
          length_buckets(some_lengths(size), 0)};
}

TensorBatches batches_by(const SamplerOf& sampler, std::int64_t size,
                         TensorBatchesOptions options = {.batch_size = 4, .seed = 3}) {
  options.sampler = sampler;
  return {numbered_rows(size), row_numbers(size), options};
}

TEST(Samplers, DecideWhatAllSourcesGive) {
  const auto images = small_set(23);
  for (const SamplerOf& sampler : samplers(23)) {
    TensorBatches tensors = batches_by(sampler, 23);
    for (const std::int64_t workers : {0, 2}) {
      DataLoader loader(*images,
                        {.batch_size = 4, .seed = 3, .workers = workers, .sampler = sampler});
      tensors.seek({});
      for (int epoch = 0; epoch < 3; ++epoch) {
        EXPECT_EQ(batches_of(loader), batches_of(tensors)) << sampler->description();
      }
    }
    EXPECT_EQ(tensors.examples_per_epoch(), sampler->epoch_size());
  }
}

TEST(Samplers, GoOnFromAnyPosition) {
  for (const SamplerOf& sampler : samplers(23)) {
    TensorBatches whole = batches_by(sampler, 23);
    const std::vector<Rows> first = batches_of(whole);
    const std::vector<Rows> second = batches_of(whole);
    EXPECT_NE(first, second) << sampler->description();
    for (std::size_t step = 0; step < second.size(); ++step) {
      TensorBatches resumed = batches_by(sampler, 23);
      resumed.seek({.epoch = 1, .step = static_cast<std::int64_t>(step)});
      EXPECT_EQ(joined(batches_of(resumed)),
                joined({second.begin() + static_cast<std::ptrdiff_t>(step), second.end()}));
    }
  }
}

TEST(Samplers, ShardsArePartsOfOneBatch) {
  for (const SamplerOf& sampler : samplers(23)) {
    TensorBatches whole = batches_by(sampler, 23, {.batch_size = 6, .seed = 3});
    std::vector<Rows> parts(static_cast<std::size_t>(whole.steps_per_epoch()));
    for (std::int64_t index = 0; index < 3; ++index) {
      TensorBatches part = batches_by(
          sampler, 23, {.batch_size = 2, .seed = 3, .shard = {.index = index, .count = 3}});
      const std::vector<Rows> own = batches_of(part);
      for (std::size_t i = 0; i < own.size(); ++i) {
        parts[i].insert(parts[i].end(), own[i].begin(), own[i].end());
      }
    }
    EXPECT_EQ(parts, batches_of(whole)) << sampler->description();
  }
}

TEST(Samplers, TellThemselvesApart) {
  EXPECT_EQ(weighted_sampler({1, 2})->description(), weighted_sampler({1, 2}, 2)->description());
  EXPECT_NE(weighted_sampler({1, 2})->description(), weighted_sampler({2, 1})->description());
  EXPECT_NE(weighted_sampler({1, 2})->description(), weighted_sampler({1, 2}, 3)->description());
  EXPECT_NE(length_buckets({1, 2})->description(), length_buckets({2, 1})->description());
  EXPECT_NE(length_buckets({1, 2}, 1)->description(), length_buckets({1, 2}, 2)->description());
}

// Each count is binomial; six standard deviations are exceeded only once in 500 million.
TEST(WeightedSampler, DrawsInProportion) {
  constexpr std::int64_t kDraws = 40000;
  TensorBatches batches = batches_by(weighted_sampler({1, 0, 3, 0.5, 0}, kDraws), 5);
  std::map<std::int64_t, double> counts;
  for (const std::int64_t example : joined(batches_of(batches))) ++counts[example];
  const std::map<std::int64_t, double> parts{{0, 1 / 4.5}, {2, 3 / 4.5}, {3, 0.5 / 4.5}};
  EXPECT_EQ(counts.size(), parts.size());
  for (const auto& [example, part] : parts) {
    const double deviation = std::sqrt(kDraws * part * (1 - part));
    EXPECT_NEAR(counts[example], kDraws * part, 6 * deviation) << example;
  }
}

TEST(WeightedSampler, BalancesClasses) {
  const std::vector<double> expected{0.25, 1, 0.25, 0.25, 0.25};
  EXPECT_EQ(balanced_weights(from_values<std::int64_t>({0, 7, 0, 0, 0}, {5})), expected);
  EXPECT_EQ(balanced_weights(from_values<std::int32_t>({0, 7, 0, 0, 0}, {5})), expected);
  const std::vector<double> of_set = balanced_weights(*small_set(12));  // classes 0 to 9, 0, 1
  EXPECT_EQ(of_set[0], 0.5);
  EXPECT_EQ(of_set[2], 1);
  EXPECT_EQ(of_set[10], 0.5);
  EXPECT_THAT(message_of<ArgumentError>([] { balanced_weights(zeros({3})); }),
              HasSubstr("[balanced_weights] labels are class numbers, i64 or i32 [n]; here is"));
  EXPECT_THAT(
      message_of<ArgumentError>([] { balanced_weights(from_values<std::int64_t>({-1}, {1})); }),
      HasSubstr("a label is -1"));
}

// An image that is drawn again in an epoch is transformed differently; the first occurrence is
// transformed as without a sampler.
TEST(WeightedSampler, VariesImagesThatComeAgain) {
  const auto noise = [](Image& image, Generator& random) {
    image.pixels[0] = static_cast<std::uint8_t>(random.below(256));
    image.pixels[1] = static_cast<std::uint8_t>(random.below(256));
  };
  const auto images = map(small_set(2), {noise});
  const auto pixels_of = [&](const SamplerOf& sampler) {
    DataLoader loader(*images, {.batch_size = 2, .seed = 1, .sampler = sampler});
    std::map<std::int64_t, std::vector<std::vector<float>>> pixels;
    for (Batch batch; loader.next(batch);) {
      const auto all = batch.images.to_vector<float>();
      const auto size = static_cast<std::ptrdiff_t>(all.size() / batch.indices.size());
      for (std::size_t i = 0; i < batch.indices.size(); ++i) {
        const auto from = all.begin() + static_cast<std::ptrdiff_t>(i) * size;
        pixels[batch.indices[i]].emplace_back(from, from + size);
      }
    }
    return pixels;
  };
  auto plain = pixels_of(nullptr);
  auto drawn = pixels_of(weighted_sampler({1, 0}, 5));
  ASSERT_EQ(drawn[0].size(), 5U);
  EXPECT_EQ(drawn[0][0], plain[0][0]);
  for (std::size_t i = 1; i < 5; ++i) EXPECT_NE(drawn[0][i], drawn[0][i - 1]);
}

TEST(LengthBuckets, HaveEveryExampleOnce) {
  for (const std::int64_t pool : {0, 1, 2, 50}) {
    for (const bool shuffle : {false, true}) {
      TensorBatches batches = batches_by(length_buckets(some_lengths(23), pool), 23,
                                         {.batch_size = 4, .shuffle = shuffle, .seed = 3});
      const std::vector<Rows> epoch = batches_of(batches);
      EXPECT_EQ(epoch.back().size(), 3U);
      Rows all = joined(epoch);
      std::ranges::sort(all);
      EXPECT_EQ(all, row_numbers(23).to_vector<std::int64_t>());
    }
  }
}

// The padding of an epoch: the elements filled in up to the longest of each batch.
std::int64_t padding_of(const std::vector<Rows>& batches, const Rows& lengths) {
  std::int64_t padding = 0;
  for (const Rows& batch : batches) {
    Rows own;
    for (const std::int64_t i : batch) own.push_back(lengths[static_cast<std::size_t>(i)]);
    for (const std::int64_t length : own) padding += std::ranges::max(own) - length;
  }
  return padding;
}

TEST(LengthBuckets, AreOfSimilarLengths) {
  const Rows lengths = some_lengths(400);
  const TensorBatchesOptions options{.batch_size = 8, .seed = 3};
  TensorBatches plain = batches_by(nullptr, 400, options);
  TensorBatches pools = batches_by(length_buckets(lengths, 10), 400, options);
  TensorBatches whole = batches_by(length_buckets(lengths, 0), 400, options);
  const std::int64_t of_plain = padding_of(batches_of(plain), lengths);
  const std::int64_t of_pools = padding_of(batches_of(pools), lengths);
  const std::vector<Rows> sorted = batches_of(whole);
  // A range of 40 lengths in 50 batches: less than a length per example.
  EXPECT_LT(padding_of(sorted, lengths), 400);
  EXPECT_LT(of_pools, of_plain / 3);
  const auto length_of = [&](const Rows& batch) {
    return lengths[static_cast<std::size_t>(batch[0])];
  };
  EXPECT_FALSE(std::ranges::is_sorted(sorted, {}, length_of));
  TensorBatchesOptions in_order = options;
  in_order.shuffle = false;
  TensorBatches ascending = batches_by(length_buckets(lengths), 400, in_order);
  const auto length_at = [&](std::int64_t i) { return lengths[static_cast<std::size_t>(i)]; };
  EXPECT_TRUE(std::ranges::is_sorted(joined(batches_of(ascending)), {}, length_at));
}

class Wrong final : public Sampler {
 public:
  explicit Wrong(Rows rows) : rows_(std::move(rows)) {}
  std::string description() const override { return "wrong sampler"; }
  std::int64_t set_size() const override { return 3; }
  std::vector<std::int64_t> examples(const BatchOrder& /*order*/,
                                     std::int64_t /*epoch*/) const override {
    return rows_;
  }

 private:
  Rows rows_;
};

TEST(Samplers, RefuseWhatDoesNotFit) {
  const auto refusal = [](const auto& action) { return message_of<ArgumentError>(action); };
  EXPECT_EQ(refusal([] { weighted_sampler({}); }),
            "[weighted_sampler] there are no weights. Give one for each example");
  EXPECT_EQ(refusal([] {
              weighted_sampler({1, -1});
            }),
            "[weighted_sampler] weight 1 is -1. Weights must be finite and not negative");
  EXPECT_THAT(refusal([] { weighted_sampler({std::nan("")}); }), HasSubstr("weight 0 is nan"));
  EXPECT_THAT(refusal([] { weighted_sampler({0, 0}); }), HasSubstr("the weights add up to 0"));
  const double large = std::numeric_limits<double>::max();
  EXPECT_THAT(refusal([&] { weighted_sampler({large, large}); }), HasSubstr("add up to inf"));
  EXPECT_THAT(refusal([] { weighted_sampler({1}, -1); }), HasSubstr("not be negative: -1"));
  EXPECT_THAT(refusal([] { length_buckets({}); }), HasSubstr("there are no lengths"));
  EXPECT_THAT(refusal([] { length_buckets({3, -2}); }), HasSubstr("length 1 is -2"));
  EXPECT_THAT(refusal([] { length_buckets({3}, -1); }), HasSubstr("not be negative: -1"));
  EXPECT_THAT(
      refusal([] {
        batches_by(length_buckets({1, 2}), 3);
      }),
      HasSubstr("is for a set of 2 examples, and this one has 3. Make the sampler for this"));
  EXPECT_THAT(refusal([] {
                batches_by(weighted_sampler({1, 2}), 2, {.shuffle = false});
              }),
              HasSubstr("shuffle is false"));
  EXPECT_THAT(refusal([] {
                batches_by(weighted_sampler({1, 2}), 2, {.batch_size = 3, .drop_remainder = true});
              }),
              HasSubstr("Use a batch size of at most 2"));
  const auto of_wrong = [&](const Rows& rows) {
    TensorBatches batches = batches_by(std::make_shared<Wrong>(rows), 3);
    return refusal([&] { batches_of(batches); });
  };
  EXPECT_EQ(of_wrong({0, 1}),
            "[loader] the wrong sampler gave 2 examples for an epoch of 3. Correct the sampler");
  EXPECT_EQ(of_wrong({0, 1, 3}),
            "[loader] the wrong sampler gave example 3 of a set of 3. Correct the sampler");
}

}  // namespace
}  // namespace mezzo::data
