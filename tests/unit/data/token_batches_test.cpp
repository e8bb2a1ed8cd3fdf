#include "mezzo/data/token_batches.h"

#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mezzo/core/error.h"
#include "mezzo/data/token_file.h"
#include "tests/unit/data/batches.h"
#include "tests/unit/data/token_files.h"

namespace mezzo::data {
namespace {

using testing::HasSubstr;

// Token i of the set is i.
std::unique_ptr<TokenSet> counted_tokens(const TempFolder& folder, std::int64_t count) {
  return open_token_file(folder.write("counted.bin", stored(counted(count), 2)));
}

// Each row is a sequence that begins where the indices say, and the labels are one token later.
void expect_sequences(const Batch& batch, std::int64_t length, std::int64_t stride) {
  const auto n = std::ssize(batch.indices);
  ASSERT_EQ(batch.images.shape(), Shape({n, length}));
  ASSERT_EQ(batch.labels.shape(), Shape({n, length}));
  const auto inputs = batch.images.to_vector<std::int64_t>();
  const auto labels = batch.labels.to_vector<std::int64_t>();
  for (std::int64_t i = 0; i < n * length; ++i) {
    const auto at = static_cast<std::size_t>(i);
    const std::int64_t begin = batch.indices[static_cast<std::size_t>(i / length)] * stride;
    EXPECT_EQ(inputs[at], begin + i % length);
    EXPECT_EQ(labels[at], inputs[at] + 1);
  }
}

TEST(TokenBatches, GiveTheTokensThatFollow) {
  const TempFolder folder;
  const auto tokens = counted_tokens(folder, 100);
  TokenBatches batches(*tokens, {.batch_size = 4, .length = 7, .drop_remainder = true, .seed = 3});
  EXPECT_EQ(batches.steps_per_epoch(), 3);  // 14 sequences follow one another
  for (Batch batch; batches.next(batch);) expect_sequences(batch, 7, 1);
}

TEST(TokenBatches, FollowOneAnotherOverTheWholeSet) {
  const TempFolder folder;
  const auto tokens = counted_tokens(folder, 33);
  TokenBatches batches(*tokens, {.batch_size = 3, .length = 4, .shuffle = false});
  EXPECT_EQ(sequences_in(*tokens, 4), 8);
  Rows predicted;
  for (Batch batch; batches.next(batch);) {
    expect_sequences(batch, 4, 4);
    const Rows labels = batch.labels.to_vector<std::int64_t>();
    predicted.insert(predicted.end(), labels.begin(), labels.end());
  }
  EXPECT_EQ(predicted, counted(32, 1));  // each token but the first, once
}

TEST(TokenBatches, BeginAnywhereWithTheSameProbability) {
  const TempFolder folder;
  const auto tokens = counted_tokens(folder, 13);
  TokenBatches batches(*tokens, {.batch_size = 1, .length = 3, .seed = 5});
  Rows counts(10);  // of places where a sequence and its last label fit
  constexpr int kEpochs = 500;
  for (int i = 0; i < kEpochs; ++i) {
    for (const std::int64_t begin : joined(batches_of(batches))) {
      ++counts.at(static_cast<std::size_t>(begin));
    }
  }
  // Four sequences an epoch: 200 for each place, with a deviation of sqrt(2000 * 0.1 * 0.9) = 13.4.
  for (const std::int64_t count : counts) EXPECT_NEAR(count, 200, 5 * 13.4);
}

TEST(TokenBatches, AreAFunctionOfSeedAndPosition) {
  const TempFolder folder;
  const auto tokens = counted_tokens(folder, 400);
  const TokenBatchesOptions options{.batch_size = 5, .length = 8, .seed = 7};
  TokenBatches batches(*tokens, options);
  const std::vector<Rows> first = batches_of(batches);
  const std::vector<Rows> second = batches_of(batches);
  EXPECT_EQ(first.size(), 10U);  // of 49 sequences
  EXPECT_EQ(first.back().size(), 4U);
  EXPECT_NE(first, second);
  TokenBatches again(*tokens, options);
  again.seek({.epoch = 1, .step = 6});
  Batch batch;
  ASSERT_TRUE(again.next(batch));
  EXPECT_EQ(batch.indices, second[6]);
  TokenBatches other(*tokens, {.batch_size = 5, .length = 8, .seed = 8});
  EXPECT_NE(batches_of(other), first);
  // Larger batches are the same sequences, in other parts.
  TokenBatches larger(*tokens, {.batch_size = 10, .length = 8, .seed = 7});
  EXPECT_EQ(joined(batches_of(larger)), joined(first));
}

TEST(TokenBatches, ShardsAreTheBatchesOfOne) {
  const TempFolder folder;
  const auto tokens = counted_tokens(folder, 200);
  for (const bool shuffle : {false, true}) {
    const auto source = [&](std::int64_t batch_size, Shard shard) {
      return std::make_unique<TokenBatches>(*tokens, TokenBatchesOptions{.batch_size = batch_size,
                                                                         .length = 6,
                                                                         .shuffle = shuffle,
                                                                         .drop_remainder = true,
                                                                         .seed = 2,
                                                                         .shard = shard});
    };
    const std::vector<Rows> whole = batches_of(*source(6, {}));
    const std::vector<Rows> upper = batches_of(*source(3, {.index = 0, .count = 2}));
    const std::vector<Rows> lower = batches_of(*source(3, {.index = 1, .count = 2}));
    ASSERT_EQ(upper.size(), whole.size());
    for (std::size_t i = 0; i < whole.size(); ++i) {
      EXPECT_EQ(joined({upper[i], lower[i]}), whole[i]) << shuffle;
    }
  }
}

// A list of all places would take 8 TB.
TEST(TokenBatches, NeedNoMemoryForTheSizeOfTheSet) {
  const TempFolder folder;
  std::filesystem::resize_file(folder.write("large.bin", {}), std::uintmax_t{1} << 41);
  const auto tokens = open_token_file(folder.path("large.bin"), 65'536);
  TokenBatches batches(*tokens, {.batch_size = 2, .length = 16, .seed = 1});
  Batch batch;
  ASSERT_TRUE(batches.next(batch));
  EXPECT_GT(batch.indices[0], std::int64_t{1} << 30);
  EXPECT_EQ(batch.labels.to_vector<std::int64_t>(), Rows(32, 0));
}

TEST(TokenBatches, RefuseWhatGivesNoSequence) {
  const TempFolder folder;
  const auto tokens = counted_tokens(folder, 8);
  const auto error_of = [&](const TokenBatchesOptions& options) {
    return message_of<ArgumentError>([&] { TokenBatches batches(*tokens, options); });
  };
  EXPECT_EQ(
      error_of({.batch_size = 1, .length = 8}),
      concat("[tokens] ", folder.path("counted.bin"),
             ": has 8 tokens, too few for a sequence of 8 and the token after it. Use a longer "
             "text, or shorter sequences"));
  EXPECT_EQ(error_of({.length = 0}), "[tokens] sequences must have at least 1 token: 0");
  EXPECT_THAT(error_of({.batch_size = 2, .length = 7, .drop_remainder = true}),
              HasSubstr("the batch is larger than the data set: 2 of 1 examples"));
  EXPECT_THAT(error_of({.batch_size = 0, .length = 7}), HasSubstr("batch size must be positive"));
  EXPECT_EQ(TokenBatches(*tokens, {.length = 7}).steps_per_epoch(), 1);
}

}  // namespace
}  // namespace mezzo::data
