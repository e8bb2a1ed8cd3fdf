#include "mezzo/data/loader.h"

#include <algorithm>
#include <atomic>
#include <limits>
#include <numeric>

#include <gmock/gmock.h>

#include "mezzo/core/error.h"
#include "mezzo/data/digits.h"
#include "mezzo/data/pipeline.h"
#include "mezzo/data/stream.h"
#include "mezzo/ops/shape_ops.h"
#include "tests/unit/data/images.h"
#include "tests/unit/data/small_set.h"

namespace mezzo::data {
namespace {

using Indices = std::vector<std::int64_t>;

// The indices of all images until the end of the epoch, in order.
Indices rest_of_epoch(DataLoader& loader) {
  Indices all;
  Batch batch;
  while (loader.next(batch)) {
    EXPECT_EQ(batch.images.size(0), static_cast<std::int64_t>(batch.indices.size()));
    EXPECT_EQ(batch.labels.size(0), batch.images.size(0));
    all.insert(all.end(), batch.indices.begin(), batch.indices.end());
  }
  return all;
}

Indices numbers_to(std::int64_t size) {
  Indices indices(static_cast<std::size_t>(size));
  std::iota(indices.begin(), indices.end(), 0);
  return indices;
}

TEST(Loader, EpochsArePermutationsThatDiffer) {
  const auto set = small_set(103);
  DataLoader loader(*set, {.batch_size = 10, .seed = 5});
  const Indices first = rest_of_epoch(loader);
  const Indices second = rest_of_epoch(loader);
  EXPECT_TRUE(std::ranges::is_permutation(first, numbers_to(103)));
  EXPECT_TRUE(std::ranges::is_permutation(second, numbers_to(103)));
  EXPECT_NE(first, second);
  EXPECT_NE(first, numbers_to(103));
  DataLoader other(*set, {.batch_size = 10, .seed = 6});
  EXPECT_NE(first, rest_of_epoch(other));
}

TEST(Loader, OrderDependsOnSeedAndEpochAlone) {
  const auto set = small_set(50);
  DataLoader loader(*set, {.batch_size = 8, .seed = 5});
  const Indices first = rest_of_epoch(loader);
  const Indices second = rest_of_epoch(loader);
  for (const std::int64_t prefetch : {0, 1, 7, 100}) {
    DataLoader same(*set, {.batch_size = 11, .seed = 5, .prefetch = prefetch});
    EXPECT_EQ(rest_of_epoch(same), first) << prefetch;
    EXPECT_EQ(rest_of_epoch(same), second) << prefetch;
  }
}

TEST(Loader, EveryPlaceIsEquallyLikely) {
  const auto set = small_set(6);
  DataLoader loader(*set, {.batch_size = 6, .prefetch = 0});
  constexpr int kEpochs = 6000;
  int counts[6][6] = {};
  for (int epoch = 0; epoch < kEpochs; ++epoch) {
    const Indices order = rest_of_epoch(loader);
    for (std::size_t place = 0; place < 6; ++place) ++counts[place][order[place]];
  }
  // 1000 are expected with a deviation of 29; this allows five deviations.
  for (const auto& row : counts) {
    for (const int count : row) EXPECT_NEAR(count, 1000, 145);
  }
}

TEST(Loader, WithoutShufflingInFileOrder) {
  const auto set = small_set(23);
  DataLoader loader(*set, {.batch_size = 5, .shuffle = false});
  EXPECT_EQ(rest_of_epoch(loader), numbers_to(23));
  EXPECT_EQ(rest_of_epoch(loader), numbers_to(23));
}

TEST(Loader, CountsStepsWithAndWithoutTheRemainder) {
  struct Row {
    std::int64_t size, batch;
    bool drop;
    std::int64_t steps, images;
  };
  for (const Row& row : {Row{23, 5, false, 5, 23}, Row{23, 5, true, 4, 20},
                         Row{20, 5, false, 4, 20}, Row{20, 5, true, 4, 20}, Row{3, 5, false, 1, 3},
                         Row{5, 5, true, 1, 5}, Row{1, 1, true, 1, 1}}) {
    const auto set = small_set(row.size);
    DataLoader loader(*set, {.batch_size = row.batch, .drop_remainder = row.drop});
    EXPECT_EQ(loader.steps_per_epoch(), row.steps);
    EXPECT_EQ(loader.examples_per_epoch(), row.images);
    EXPECT_EQ(loader.last_batch_size(), row.images - (row.steps - 1) * row.batch);
    for (int epoch = 0; epoch < 2; ++epoch) {
      EXPECT_EQ(rest_of_epoch(loader).size(), static_cast<std::size_t>(row.images));
    }
  }
}

TEST(Loader, RefusesOptionsThatCannotBe) {
  const auto set = small_set(4);
  const auto error_of = [&](const LoaderOptions& options) {
    return message_of<ArgumentError>([&] { const DataLoader loader(*set, options); });
  };
  EXPECT_EQ(error_of({.batch_size = 0}), "[loader] the batch size must be positive: 0");
  EXPECT_EQ(error_of({.batch_size = -3}), "[loader] the batch size must be positive: -3");
  EXPECT_EQ(
      error_of({.batch_size = 5, .drop_remainder = true}),
      "[loader] the batch is larger than the data set: 5 of 4 examples, and incomplete batches "
      "are dropped. Use a batch size of at most 4");
  EXPECT_EQ(error_of({.prefetch = -1}), "[loader] prefetch must not be negative: -1");
  EXPECT_EQ(error_of({.workers = -1}), "[loader] the number of workers must be from 0 to 1024: -1");
  EXPECT_EQ(error_of({.image_dtype = DType::kI64}),
            "[loader] images cannot be i64. Use f32, bf16 or f16");
  EXPECT_EQ(error_of({.label_dtype = DType::kF32}),
            "[loader] labels cannot be f32. Use i64 or i32");
  EXPECT_THAT(error_of({.normalization = cifar10_normalization()}),
              ::testing::HasSubstr("each of 1 channels: got 3 and 3"));
  EXPECT_THAT(error_of({.normalization = Normalization{{0.0F}, {0.0F}}}),
              ::testing::HasSubstr("must be positive: 0"));
}

TEST(Loader, GoesOnFromAnyPosition) {
  const auto set = small_set(23);
  const LoaderOptions options{.batch_size = 5, .seed = 9};
  DataLoader loader(*set, options);
  rest_of_epoch(loader);
  const Indices second = rest_of_epoch(loader);
  EXPECT_EQ(loader.position(), (LoaderPosition{2, 0}));

  DataLoader resumed(*set, options);
  resumed.seek({1, 3});
  EXPECT_EQ(rest_of_epoch(resumed), Indices(second.begin() + 15, second.end()));
  EXPECT_EQ(resumed.position(), (LoaderPosition{2, 0}));
  resumed.seek({1, 5});  // after the last batch, before the end of the epoch was reported
  EXPECT_TRUE(rest_of_epoch(resumed).empty());
  EXPECT_EQ(resumed.position(), (LoaderPosition{2, 0}));
  resumed.seek({1, 0});
  EXPECT_EQ(rest_of_epoch(resumed), second);
  for (const LoaderPosition wrong : {LoaderPosition{-1, 0}, {0, -1}, {0, 6}}) {
    EXPECT_THROW(resumed.seek(wrong), ArgumentError);
  }
}

TEST(Loader, PositionIsThatOfTheNextBatch) {
  const auto set = small_set(10);
  DataLoader loader(*set, {.batch_size = 5});
  Batch batch;
  EXPECT_EQ(loader.position(), (LoaderPosition{0, 0}));
  ASSERT_TRUE(loader.next(batch));
  EXPECT_EQ(loader.position(), (LoaderPosition{0, 1}));
  ASSERT_TRUE(loader.next(batch));
  EXPECT_EQ(loader.position(), (LoaderPosition{0, 2}));
  EXPECT_FALSE(loader.next(batch));
  EXPECT_FALSE(batch.images.defined());
  EXPECT_EQ(loader.position(), (LoaderPosition{1, 0}));
}

TEST(Loader, StopsInMidEpoch) {
  const auto set = small_set(1000);
  for (int taken = 0; taken < 4; ++taken) {
    DataLoader loader(*set, {.batch_size = 2});
    Batch batch;
    for (int i = 0; i < taken; ++i) ASSERT_TRUE(loader.next(batch));
  }
}

// Fails at one index, and checks the stream that each image gets.
class FussyDataset final : public Dataset {
 public:
  explicit FussyDataset(std::int64_t number) : broken(number) {}
  std::int64_t size() const override { return 12; }
  Shape image_shape() const override { return {1, 1, 1}; }
  std::int64_t num_classes() const override { return 1; }
  Normalization normalization() const override { return {{0.0F}, {1.0F}}; }
  std::int64_t read(std::int64_t index, Generator& random,
                    std::span<std::uint8_t> pixels) const override {
    if (index == broken) fail<FileError>("fussy", "image ", index, " is damaged");
    pixels[0] = static_cast<std::uint8_t>(random.next());
    return 0;
  }

  std::atomic<std::int64_t> broken;
};

TEST(Loader, ErrorsComeAfterTheGoodBatchesOnTheCaller) {
  const FussyDataset set(7);
  for (const std::int64_t prefetch : {0, 2}) {
    DataLoader loader(set, {.batch_size = 3, .shuffle = false, .prefetch = prefetch});
    Batch batch;
    EXPECT_TRUE(loader.next(batch));
    EXPECT_TRUE(loader.next(batch));
    for (int again = 0; again < 2; ++again) {
      EXPECT_EQ(message_of<FileError>([&] { loader.next(batch); }), "[fussy] image 7 is damaged");
      EXPECT_EQ(loader.position(), (LoaderPosition{0, 2}));
    }
    loader.seek({0, 3});
    EXPECT_TRUE(loader.next(batch));
  }
}

// A file system may have been unavailable: images that can be read again are read.
TEST(Loader, WhatFailedIsTriedAgain) {
  for (const std::int64_t workers : {0, 1, 3}) {
    FussyDataset set(3);
    DataLoader loader(set, {.batch_size = 2, .shuffle = false, .workers = workers});
    Batch batch;
    EXPECT_TRUE(loader.next(batch));
    EXPECT_EQ(message_of<FileError>([&] { loader.next(batch); }), "[fussy] image 3 is damaged");
    set.broken = -1;
    EXPECT_EQ(rest_of_epoch(loader), (Indices{2, 3, 4, 5, 6, 7, 8, 9, 10, 11})) << workers;
  }
}

TEST(Loader, EachImageHasItsOwnStreamPerEpoch) {
  const FussyDataset set(-1);
  for (const bool shuffle : {false, true}) {
    DataLoader loader(set, {.batch_size = 12, .shuffle = shuffle, .seed = 3});
    Batch batch;
    for (std::uint64_t epoch = 0; epoch < 2; ++epoch) {
      ASSERT_TRUE(loader.next(batch));
      const std::vector<float> values = batch.images.to_vector<float>();
      for (std::size_t i = 0; i < 12; ++i) {
        Generator random = stream_of(3, epoch, static_cast<std::uint64_t>(batch.indices[i]));
        EXPECT_EQ(values[i], static_cast<float>(random.next() & 255U) / 255.0F);
      }
      ASSERT_FALSE(loader.next(batch));
    }
  }
}

// Everything that a loader gives in two epochs from a position, as bytes and numbers.
struct Given {
  std::vector<float> images;
  std::vector<std::int64_t> labels;
  Indices indices;

  bool operator==(const Given&) const = default;
};

Given all_of(DataLoader& loader, LoaderPosition from) {
  Given given;
  loader.seek(from);
  Batch batch;
  while (loader.position().epoch < 2) {
    if (!loader.next(batch)) continue;
    const std::vector<float> images = batch.images.to_vector<float>();
    given.images.insert(given.images.end(), images.begin(), images.end());
    const auto labels = batch.labels.to_vector<std::int64_t>();
    given.labels.insert(given.labels.end(), labels.begin(), labels.end());
    given.indices.insert(given.indices.end(), batch.indices.begin(), batch.indices.end());
  }
  return given;
}

// An image is transformed alike in whatever shard it is, by however many workers.
TEST(Loader, ShardsHaveTheImagesOfOneLoader) {
  const auto set = open_digits(Split::kTrain, 21);
  const auto augmented = map(*set, {RandomCrop{.height = 28, .width = 28, .padding = 4}});
  DataLoader whole(*augmented, {.batch_size = 10, .drop_remainder = true, .seed = 5});
  Batch expected;
  ASSERT_TRUE(whole.next(expected));
  ASSERT_TRUE(whole.next(expected));
  for (const std::int64_t index : {0, 1}) {
    DataLoader part(*augmented, {.batch_size = 5,
                                 .drop_remainder = true,
                                 .seed = 5,
                                 .workers = 2 * index,
                                 .shard = {.index = index, .count = 2}});
    Batch batch;
    ASSERT_TRUE(part.next(batch));
    ASSERT_TRUE(part.next(batch));
    EXPECT_EQ(batch.images.to_vector<float>(),
              slice(expected.images, 0, 5 * index, 5 * index + 5).to_vector<float>());
    EXPECT_EQ(batch.labels.to_vector<std::int64_t>(),
              slice(expected.labels, 0, 5 * index, 5 * index + 5).to_vector<std::int64_t>());
    EXPECT_FALSE(part.next(batch));
  }
}

TEST(Loader, TheNumberOfWorkersChangesNothing) {
  const auto set = random_set(50, {3, 8, 8});
  const auto mapped = map(*set, {RandomCrop{.height = 8, .width = 8, .padding = 2},
                                 RandomHorizontalFlip{}, Resize{.height = 11, .width = 13}});
  LoaderOptions options{.batch_size = 7, .seed = 4, .workers = 0};
  DataLoader alone(*mapped, options);
  const Given all = all_of(alone, {0, 0});
  const Given rest = all_of(alone, {1, 3});
  EXPECT_EQ(all.indices.size(), 100U);
  EXPECT_EQ(rest.indices, Indices(all.indices.begin() + 71, all.indices.end()));
  for (const std::int64_t workers : {1, 3, 16}) {
    options.workers = workers;
    options.prefetch = workers;
    DataLoader loader(*mapped, options);
    EXPECT_EQ(all_of(loader, {0, 0}), all) << workers;
    EXPECT_EQ(all_of(loader, {1, 3}), rest) << workers;
  }
}

TEST(Loader, WorkersStopInMidEpoch) {
  const auto set = small_set(1000);
  for (std::int64_t workers = 1; workers < 6; ++workers) {
    DataLoader loader(*set, {.batch_size = 20, .prefetch = 3, .workers = workers});
    Batch batch;
    for (std::int64_t i = 1; i < workers; ++i) ASSERT_TRUE(loader.next(batch));
  }
}

TEST(Loader, OfSeveralBrokenImagesTheFirstIsReported) {
  // All images from 4 on are broken, so that workers meet several at once.
  class Broken final : public Dataset {
   public:
    std::int64_t size() const override { return 64; }
    Shape image_shape() const override { return {1, 1, 1}; }
    std::int64_t num_classes() const override { return 1; }
    Normalization normalization() const override { return grey_normalization(); }
    std::int64_t read(std::int64_t index, Generator& /*random*/,
                      std::span<std::uint8_t> /*pixels*/) const override {
      if (index >= 4) fail<FileError>("broken", "image ", index);
      return 0;
    }
  };
  const Broken set;
  for (int repetition = 0; repetition < 50; ++repetition) {
    DataLoader loader(set, {.batch_size = 16, .shuffle = false, .workers = 4});
    Batch batch;
    EXPECT_EQ(message_of<FileError>([&] { loader.next(batch); }), "[broken] image 4");
    EXPECT_EQ(message_of<FileError>([&] { loader.next(batch); }), "[broken] image 4");
  }
}

// Reading image 4 waits until four others have failed, so that a later one has failed before it.
TEST(Loader, AnEarlierImageThatBreaksLaterIsReported) {
  class Broken final : public Dataset {
   public:
    std::int64_t size() const override { return 32; }
    Shape image_shape() const override { return {1, 1, 1}; }
    std::int64_t num_classes() const override { return 1; }
    Normalization normalization() const override { return grey_normalization(); }
    std::int64_t read(std::int64_t index, Generator& /*random*/,
                      std::span<std::uint8_t> /*pixels*/) const override {
      if (index < 4) return 0;
      if (index == 4) {
        for (int seen = 0; seen < 4; seen = failed_) failed_.wait(seen);
      } else {
        ++failed_;
        failed_.notify_all();
      }
      fail<FileError>("broken", "image ", index);
    }

   private:
    mutable std::atomic<int> failed_{0};
  };
  const Broken set;
  DataLoader loader(set, {.batch_size = 32, .shuffle = false, .workers = 4});
  Batch batch;
  EXPECT_EQ(message_of<FileError>([&] { loader.next(batch); }), "[broken] image 4");
}

}  // namespace
}  // namespace mezzo::data
