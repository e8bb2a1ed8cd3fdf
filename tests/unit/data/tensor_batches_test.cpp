#include "mezzo/data/tensor_batches.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mezzo/data/digits.h"
#include "mezzo/data/loader.h"
#include "mezzo/ops/cast.h"
#include "mezzo/ops/shape_ops.h"
#include "tests/unit/data/batches.h"
#include "tests/unit/message_of.h"

namespace mezzo::data {
namespace {

TEST(TensorBatches, GiveTheSameRowsOfBoth) {
  TensorBatches batches(numbered_rows(10).astype(DType::kF32), row_numbers(10),
                        {.batch_size = 4, .seed = 3});
  EXPECT_EQ(batches.steps_per_epoch(), 3);
  EXPECT_EQ(batches.examples_per_epoch(), 10);
  Rows seen;
  Rows sizes;
  for (Batch batch; batches.next(batch);) {
    sizes.push_back(batch.images.size(0));
    EXPECT_EQ(batch.images.dtype(), DType::kF32);
    EXPECT_EQ(batch.labels.to_vector<std::int64_t>(), batch.indices);
    const Rows rows = batch.images.to_vector<std::int64_t>();
    ASSERT_EQ(rows.size(), 2 * batch.indices.size());
    for (std::size_t i = 0; i < batch.indices.size(); ++i) {
      EXPECT_EQ(rows[2 * i], 2 * batch.indices[i]);
      EXPECT_EQ(rows[2 * i + 1], 2 * batch.indices[i] + 1);
      seen.push_back(batch.indices[i]);
    }
  }
  EXPECT_EQ(sizes, (Rows{4, 4, 2}));
  EXPECT_NE(seen, row_numbers(10).to_vector<std::int64_t>());
  EXPECT_THAT(seen, testing::UnorderedElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8, 9));
}

TEST(TensorBatches, HaveTheOrderOfAnImageLoader) {
  const auto digits = open_digits(Split::kTrain, 23);
  for (const bool drop : {false, true}) {
    DataLoader images(*digits, {.batch_size = 5, .drop_remainder = drop, .seed = 7});
    TensorBatches tensors(numbered_rows(23), row_numbers(23),
                          {.batch_size = 5, .drop_remainder = drop, .seed = 7});
    std::vector<Rows> epochs[3];
    for (std::vector<Rows>& epoch : epochs) {
      epoch = batches_of(tensors);
      EXPECT_EQ(epoch, batches_of(images));
      EXPECT_EQ(epoch.size(), drop ? 4U : 5U);
    }
    EXPECT_NE(epochs[0], epochs[1]);
    EXPECT_NE(epochs[1], epochs[2]);
  }
}

TEST(TensorBatches, WithoutShufflingRowsComeAsTheyLie) {
  TensorBatches batches(numbered_rows(5), row_numbers(5), {.batch_size = 2, .shuffle = false});
  for (int epoch = 0; epoch < 2; ++epoch) {
    EXPECT_EQ(batches_of(batches), (std::vector<Rows>{{0, 1}, {2, 3}, {4}}));
  }
}

TEST(TensorBatches, GoOnFromAnyPosition) {
  const TensorBatchesOptions options{.batch_size = 3, .seed = 11};
  TensorBatches whole(numbered_rows(8), row_numbers(8), options);
  batches_of(whole);
  const std::vector<Rows> second = batches_of(whole);
  TensorBatches resumed(numbered_rows(8), row_numbers(8), options);
  resumed.seek({.epoch = 1, .step = 2});
  EXPECT_EQ(batches_of(resumed), (std::vector<Rows>{second[2]}));
  EXPECT_EQ(resumed.position(), (LoaderPosition{.epoch = 2, .step = 0}));
  EXPECT_EQ(batches_of(resumed), batches_of(whole));
  EXPECT_EQ(message_of<ArgumentError>([&] { resumed.seek({.epoch = 0, .step = 4}); }),
            "[loader] no such position: epoch 0, step 4, with 3 steps per epoch. Seek to a batch "
            "within these");
}

TEST(TensorBatches, KeepDtypesAndFormats) {
  const Tensor images = to_format(reshape(numbered_rows(36).astype(DType::kBf16), {4, 2, 3, 3}),
                                  Format::kChannelsLast);
  const Tensor scalars = from_values({1.5F, 2.5F, 3.5F, 4.5F}, {4});
  TensorBatches batches(images, scalars, {.batch_size = 2, .shuffle = false});
  Batch batch;
  batches.next(batch);
  batches.next(batch);
  EXPECT_EQ(batch.images.dtype(), DType::kBf16);
  EXPECT_TRUE(batch.images.is_dense(Format::kChannelsLast));
  EXPECT_EQ(batch.images.to_vector<float>(), slice(images, 0, 2, 4).to_vector<float>());
  EXPECT_EQ(batch.labels.to_vector<float>(), (std::vector<float>{3.5F, 4.5F}));
}

// The batches of each shard in an epoch of 23 rows; in each batch the shards are concatenated.
std::vector<Rows> joined_shards(std::int64_t count, std::int64_t epoch, bool drop) {
  std::vector<Rows> joined;
  for (std::int64_t index = 0; index < count; ++index) {
    TensorBatches part(numbered_rows(23), row_numbers(23),
                       {.batch_size = 2,
                        .drop_remainder = drop,
                        .seed = 7,
                        .shard = {.index = index, .count = count}});
    part.seek({.epoch = epoch, .step = 0});
    const std::vector<Rows> own = batches_of(part);
    EXPECT_EQ(own.size(), static_cast<std::size_t>(part.steps_per_epoch()));
    joined.resize(std::max(joined.size(), own.size()));
    std::size_t examples = 0;
    for (std::size_t i = 0; i < own.size(); ++i) {
      joined[i].insert(joined[i].end(), own[i].begin(), own[i].end());
      examples += own[i].size();
    }
    EXPECT_EQ(examples, static_cast<std::size_t>(part.examples_per_epoch()));
  }
  return joined;
}

TEST(TensorBatches, ShardsArePartsOfOneBatch) {
  for (const bool drop : {false, true}) {
    for (const std::int64_t count : {1, 2, 3, 5, 8}) {
      TensorBatches whole(numbered_rows(23), row_numbers(23),
                          {.batch_size = 2 * count, .drop_remainder = drop, .seed = 7});
      for (const std::int64_t epoch : {0, 1}) {
        EXPECT_EQ(joined_shards(count, epoch, drop), batches_of(whole)) << count << " shards";
      }
    }
  }
}

// With three examples in batches of four, the second of two shards gets none.
TEST(TensorBatches, AShardMayBeEmpty) {
  TensorBatches part(numbered_rows(3), row_numbers(3),
                     {.batch_size = 4, .shard = {.index = 1, .count = 2}});
  EXPECT_EQ(part.steps_per_epoch(), 0);
  EXPECT_EQ(part.examples_per_epoch(), 0);
  EXPECT_EQ(part.last_batch_size(), 0);
  EXPECT_EQ(batches_of(part), std::vector<Rows>());
}

TEST(TensorBatches, TakeRowsWithoutElements) {
  TensorBatches batches(zeros({3, 0}), row_numbers(3), {.batch_size = 2});
  Batch batch;
  ASSERT_TRUE(batches.next(batch));
  EXPECT_EQ(batch.images.shape(), (Shape{2, 0}));
}

TEST(TensorBatches, GiveFurtherTensorsAndNone) {
  const Tensor weights = from_values({0.5F, 1.5F, 2.5F}, {3, 1});
  const TensorBatchesOptions options{.batch_size = 2, .shuffle = false};
  TensorBatches three(numbered_rows(3), row_numbers(3), {weights, numbered_rows(3)}, options);
  TensorBatches two(numbered_rows(3), row_numbers(3), options);
  TensorBatches one(numbered_rows(3), options);
  three.seek({.step = 1});
  Batch batch;
  ASSERT_TRUE(three.next(batch));
  EXPECT_EQ(batch.labels.to_vector<std::int64_t>(), (Rows{2}));
  ASSERT_EQ(batch.more.size(), 2U);
  EXPECT_EQ(batch.more[0].to_vector<float>(), (std::vector<float>{2.5F}));
  EXPECT_EQ(batch.more[0].shape(), (Shape{1, 1}));
  EXPECT_EQ(batch.more[1].to_vector<std::int64_t>(), (Rows{4, 5}));
  ASSERT_TRUE(two.next(batch));
  EXPECT_TRUE(batch.more.empty());
  ASSERT_TRUE(one.next(batch));
  EXPECT_EQ(batch.images.to_vector<std::int64_t>(), (Rows{0, 1, 2, 3}));
  EXPECT_FALSE(batch.labels.defined());
  EXPECT_EQ(message_of<ArgumentError>([&] {
              const TensorBatches none(numbered_rows(4), row_numbers(4), {weights}, options);
            }),
            "[TensorBatches] there are 4 inputs, and further tensor 0 has 3 rows. Give a row for "
            "each input");
}

TEST(TensorBatches, RefuseWhatDoesNotFit) {
  const auto error_of = [](const Tensor& inputs, const Tensor& labels,
                           TensorBatchesOptions options = {}) {
    return message_of<ArgumentError>([&] { const TensorBatches batches(inputs, labels, options); });
  };
  EXPECT_EQ(error_of(zeros({3, 2}), row_numbers(4)),
            "[TensorBatches] there are 3 inputs and 4 labels. Give a label for each input");
  EXPECT_EQ(
      error_of(zeros({0, 2}), row_numbers(0)),
      "[TensorBatches] inputs are examples [n, ...], with n of at least 1; here is f32[0, 2]");
  EXPECT_THAT(error_of(zeros({}), row_numbers(1)), testing::HasSubstr("here is f32[]"));
  EXPECT_THAT(error_of(zeros({1}), Tensor()), testing::HasSubstr("labels are examples [n, ...]"));
  EXPECT_EQ(error_of(transpose(zeros({3, 2})), row_numbers(2)),
            "[TensorBatches] inputs are not contiguous in memory: f32[2, 3]. Use contiguous()");
  EXPECT_EQ(error_of(zeros({3}), row_numbers(3), {.batch_size = 0}),
            "[loader] the batch size must be positive: 0");
  EXPECT_EQ(error_of(zeros({3}), row_numbers(3), {.batch_size = 4, .drop_remainder = true}),
            "[loader] the batch is larger than the data set: 4 of 3 examples, and incomplete "
            "batches are dropped. Use a batch size of at most 3");
  EXPECT_EQ(error_of(zeros({9}), row_numbers(9),
                     {.batch_size = 4, .drop_remainder = true, .shard = {.count = 3}}),
            "[loader] the batch is larger than the data set: 4 in each of 3 shards, of 9 examples, "
            "and incomplete batches are dropped. Use a batch size of at most 3");
  EXPECT_EQ(error_of(zeros({3}), row_numbers(3), {.shard = {.index = 2, .count = 2}}),
            "[loader] there is no shard 2 of 2. They count from 0");
  EXPECT_THAT(
      error_of(zeros({3}), row_numbers(3),
               {.batch_size = std::numeric_limits<std::int64_t>::max() / 2, .shard = {.count = 3}}),
      testing::HasSubstr("too large to be counted"));
}

TEST(TensorBatches, HaveAnyNumberOfInputsAndLabels) {
  const Tensor a = from_values<float>({0, 1, 2}, {3, 1});
  const Tensor b = from_values<float>({10, 11, 12}, {3});
  const Tensor c = from_values<std::int64_t>({7, 8, 9}, {3});
  TensorBatches source({a, b}, {c, b, a}, {.batch_size = 1, .shuffle = false});
  Batch batch;
  ASSERT_TRUE(source.next(batch));
  ASSERT_TRUE(source.next(batch));
  EXPECT_EQ(batch.images.item(), 1);
  ASSERT_EQ(batch.more.size(), 1U);
  EXPECT_EQ(batch.more[0].item(), 11);
  EXPECT_EQ(batch.labels.item(), 8);
  ASSERT_EQ(batch.more_labels.size(), 2U);
  EXPECT_EQ(batch.more_labels[0].item(), 11);
  EXPECT_EQ(batch.more_labels[1].item(), 1);
  TensorBatches unlabelled(std::vector<Tensor>{a, b}, std::vector<Tensor>{});
  ASSERT_TRUE(unlabelled.next(batch));
  EXPECT_FALSE(batch.labels.defined());
  EXPECT_THAT(message_of([&] { TensorBatches(std::vector<Tensor>{}, {c}); }),
              testing::HasSubstr("there are no inputs"));
  EXPECT_THAT(message_of([&] {
                TensorBatches({a, b}, {c, zeros({2})});
              }),
              testing::HasSubstr("there are 3 inputs, and further labels 1 has 2 rows"));
}

}  // namespace
}  // namespace mezzo::data
