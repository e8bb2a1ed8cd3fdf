#include "mezzo/data/mix.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <gmock/gmock.h>

#include "mezzo/core/error.h"
#include "mezzo/data/loader.h"
#include "tests/unit/data/images.h"

namespace mezzo::data {
namespace {

using ::testing::HasSubstr;

constexpr std::int64_t kBatch = 5;
constexpr std::int64_t kClasses = 10;

struct MixedBatches {
  std::vector<std::vector<float>> images;  // per batch
  std::vector<std::vector<float>> labels;

  bool operator==(const MixedBatches&) const = default;
};

MixedBatches mixed_batches(const Dataset& set, const LoaderOptions& options,
                           std::int64_t epochs = 1, LoaderPosition from = {}) {
  DataLoader loader(set, options);
  loader.seek(from);
  MixedBatches seen;
  Batch batch;
  while (loader.position().epoch < epochs) {
    if (!loader.next(batch)) continue;
    seen.images.push_back(batch.images.to_vector<float>());
    seen.labels.push_back(batch.labels.to_vector<float>());
  }
  return seen;
}

LoaderOptions options_with(const Mix& mix, std::int64_t workers = 0) {
  return {.batch_size = kBatch, .seed = 11, .workers = workers, .mix = mix};
}

MixedBatches unmixed(const Dataset& set) {
  LoaderOptions options = options_with({});
  options.one_hot = OneHot{};
  return mixed_batches(set, options);
}

// The lambda of a batch, computed from two different labels; 2 if all are equal.
float lambda_of(const std::vector<float>& labels, const std::vector<float>& before) {
  for (std::size_t i = 0; i < before.size(); ++i) {
    const std::size_t other = (i + before.size() - kClasses) % before.size();
    if (before[i] == 1 && before[other] == 0) return labels[i];
  }
  return 2;
}

TEST(Mixup, IsTheMeanOfEachImageAndTheOneBefore) {
  const auto set = random_set(50, {3, 4, 4});
  const MixedBatches before = unmixed(*set);
  const MixedBatches mixed = mixed_batches(*set, options_with({.mixup = 1}));
  ASSERT_EQ(mixed.images.size(), before.images.size());
  std::vector<float> lambdas;
  for (std::size_t b = 0; b < mixed.images.size(); ++b) {
    const float lambda = lambda_of(mixed.labels[b], before.labels[b]);
    ASSERT_LE(lambda, 1);
    lambdas.push_back(lambda);
    const auto check = [&](const std::vector<float>& got, const std::vector<float>& from) {
      const std::size_t one = from.size() / kBatch;
      for (std::size_t i = 0; i < from.size(); ++i) {
        const float other = from[(i + from.size() - one) % from.size()];
        // The values are below 3: three roundings in f32, and that of lambda in the label.
        EXPECT_NEAR(got[i], lambda * from[i] + (1 - lambda) * other,
                    3 * 4 * std::numeric_limits<float>::epsilon());
      }
    };
    check(mixed.images[b], before.images[b]);
    check(mixed.labels[b], before.labels[b]);
  }
  std::ranges::sort(lambdas);
  EXPECT_EQ(std::ranges::adjacent_find(lambdas), lambdas.end()) << "one for each batch";
}

TEST(Cutmix, TakesARectangleFromTheImageBefore) {
  const auto set = random_set(200, {3, 9, 12});
  const MixedBatches before = unmixed(*set);
  const MixedBatches mixed = mixed_batches(*set, options_with({.cutmix = 1}));
  const std::size_t plane = 9 * 12;
  const std::size_t one = 3 * plane;
  for (std::size_t b = 0; b < mixed.images.size(); ++b) {
    const float lambda = lambda_of(mixed.labels[b], before.labels[b]);
    const auto& from = before.images[b];
    std::size_t taken = 0;
    for (std::size_t i = 0; i < from.size(); ++i) {
      const float other = from[(i + from.size() - one) % from.size()];
      const float got = mixed.images[b][i];
      ASSERT_TRUE(got == from[i] || got == other);
      // The same pixels are replaced in every image and channel.
      const std::size_t place = i % plane;
      if (from[place] == from[(place + from.size() - one) % from.size()]) continue;
      const bool is_taken = mixed.images[b][place] != from[place];
      EXPECT_EQ(got, is_taken ? other : from[i]);
      taken += i < plane && is_taken ? 1 : 0;
    }
    // Few of the 108 pixels are equal by chance in both images, each with a probability of 1/256.
    EXPECT_NEAR(1 - static_cast<double>(taken) / plane, static_cast<double>(lambda), 4.0 / plane);
  }
}

TEST(Mix, IsTheSameForAnyNumberOfWorkersAndAfterARestart) {
  const auto set = random_set(33, {3, 6, 6});
  for (const Mix& mix : {Mix{.mixup = 0.2}, Mix{.cutmix = 1}, Mix{.mixup = 0.4, .cutmix = 1}}) {
    const MixedBatches alone = mixed_batches(*set, options_with(mix), 2);
    for (const std::int64_t workers : {1, 2, 5}) {
      EXPECT_EQ(mixed_batches(*set, options_with(mix, workers), 2), alone) << workers;
    }
    const MixedBatches rest = mixed_batches(*set, options_with(mix, 2), 2, {0, 3});
    EXPECT_TRUE(std::equal(rest.images.begin(), rest.images.end(), alone.images.begin() + 3,
                           alone.images.end()));
    EXPECT_TRUE(std::equal(rest.labels.begin(), rest.labels.end(), alone.labels.begin() + 3,
                           alone.labels.end()));
    LoaderOptions other = options_with(mix);
    other.seed = 12;
    EXPECT_NE(mixed_batches(*set, other, 2), alone);
  }
}

TEST(Mix, MixesEachShardByItself) {
  const auto set = random_set(40, {1, 4, 4});
  LoaderOptions options = options_with({.mixup = 1});
  options.shuffle = false;
  options.shard = {0, 2};
  const MixedBatches first = mixed_batches(*set, options);
  options.shard = {1, 2};
  const MixedBatches second = mixed_batches(*set, options);
  EXPECT_NE(first.labels[0][0], second.labels[0][5 % kClasses]) << "other lambdas";
  for (const MixedBatches* shard : {&first, &second}) {
    for (const auto& labels : shard->labels) {
      for (std::size_t row = 0; row < labels.size(); row += kClasses) {
        float sum = 0;
        for (std::size_t c = 0; c < kClasses; ++c) sum += labels[row + c];
        EXPECT_NEAR(sum, 1, kClasses * std::numeric_limits<float>::epsilon());
      }
    }
  }
}

TEST(Mix, RoundsOnceIn16Bits) {
  const auto set = random_set(20, {3, 5, 5});
  const MixedBatches exact = mixed_batches(*set, options_with({.mixup = 1}));
  for (const DType dtype : {DType::kBf16, DType::kF16}) {
    LoaderOptions options = options_with({.mixup = 1});
    options.image_dtype = dtype;
    const MixedBatches rounded = mixed_batches(*set, options);
    EXPECT_EQ(rounded.labels, exact.labels);
    // The inputs are each rounded by half a unit in the last place, and then their mean.
    const double unit = dtype == DType::kBf16 ? 0x1p-8 : 0x1p-11;
    for (std::size_t b = 0; b < exact.images.size(); ++b) {
      for (std::size_t i = 0; i < exact.images[b].size(); ++i) {
        EXPECT_NEAR(static_cast<double>(rounded.images[b][i]),
                    static_cast<double>(exact.images[b][i]), 2 * 3 * unit);
      }
    }
  }
}

// The mean of Beta(a, a) is 1/2, its variance 1 / (4 (2 a + 1)); 20,000 draws must be within five
// deviations.
TEST(DrawBeta, HasItsMeanAndVariance) {
  for (const double a : {0.01, 0.2, 1.0, 4.0, 1000.0}) {
    Generator random(5);
    constexpr int kDraws = 20'000;
    double sum = 0;
    double squares = 0;
    for (int i = 0; i < kDraws; ++i) {
      const double x = draw_beta(a, random);
      ASSERT_TRUE(x >= 0 && x <= 1) << a;
      sum += x;
      squares += (x - 0.5) * (x - 0.5);
    }
    const double variance = 1 / (4 * (2 * a + 1));
    EXPECT_NEAR(sum / kDraws, 0.5, 5 * std::sqrt(variance / kDraws)) << a;
    // (x - 1/2)^2 has a deviation of at most about its mean times the square root of 2.
    EXPECT_NEAR(squares / kDraws, variance, 5 * variance * std::sqrt(2.0 / kDraws)) << a;
  }
}

TEST(Mix, RefusesParametersThatMakeNoSense) {
  const auto set = random_set(20, {1, 2, 2});
  EXPECT_EQ(message_of<ArgumentError>([&] { DataLoader(*set, options_with({.mixup = -1})); }),
            "[mix] mixup and cutmix must be at least 0 and finite: -1");
  EXPECT_THAT(message_of<ArgumentError>([&] { DataLoader(*set, options_with({.cutmix = NAN})); }),
              HasSubstr("finite: nan"));
}

}  // namespace
}  // namespace mezzo::data
