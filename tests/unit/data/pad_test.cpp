// Tests sequences of unequal length: padding, and batches of them.
#include "mezzo/data/pad.h"

#include <numeric>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mezzo/data/sequence_batches.h"
#include "mezzo/ops/shape_ops.h"
#include "tests/unit/data/batches.h"
#include "tests/unit/message_of.h"

namespace mezzo::data {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// Sequence i is i + 1 times 10 * i.
std::vector<Tensor> stairs(std::int64_t count) {
  std::vector<Tensor> sequences;
  for (std::int64_t i = 0; i < count; ++i) {
    sequences.push_back(full({i + 1}, static_cast<double>(10 * i), DType::kI64));
  }
  return sequences;
}

TEST(PadSequences, FillsUpToTheLongest) {
  const PaddedSequences right = pad_sequences(stairs(3), {.value = -1});
  EXPECT_EQ(right.values.shape(), (Shape{3, 3}));
  EXPECT_EQ(right.values.dtype(), DType::kI64);
  EXPECT_THAT(right.values.to_vector<std::int64_t>(),
              ElementsAre(0, -1, -1, 10, 10, -1, 20, 20, 20));
  EXPECT_THAT(right.lengths.to_vector<std::int64_t>(), ElementsAre(1, 2, 3));
  EXPECT_EQ(right.lengths.dtype(), DType::kI64);
  const PaddedSequences left = pad_sequences(stairs(3), {.side = PadSide::kLeft});
  EXPECT_THAT(left.values.to_vector<std::int64_t>(), ElementsAre(0, 0, 0, 0, 10, 10, 20, 20, 20));
}

TEST(PadSequences, TakesVectorsInAnyDtypeAndNone) {
  for (const DType dtype : {DType::kF32, DType::kBf16, DType::kF16, DType::kU8}) {
    const std::vector<Tensor> sequences{ones({0, 2}, dtype), ones({2, 2}, dtype)};
    const PaddedSequences padded = pad_sequences(sequences, {.value = 3});
    EXPECT_EQ(padded.values.dtype(), dtype);
    EXPECT_EQ(padded.values.shape(), (Shape{2, 2, 2}));
    EXPECT_THAT(padded.values.astype(DType::kF32).to_vector<float>(),
                ElementsAre(3, 3, 3, 3, 1, 1, 1, 1));
    EXPECT_THAT(padded.lengths.to_vector<std::int64_t>(), ElementsAre(0, 2));
  }
  EXPECT_EQ(pad_sequences(std::vector<Tensor>{ones({0, 2}), ones({0, 2})}).values.shape(),
            (Shape{2, 0, 2}));
}

TEST(PadSequences, RefusesWhatIsNotAlike) {
  const auto refusal = [](const std::vector<Tensor>& sequences, const PadOptions& options = {}) {
    return message_of<ArgumentError>([&] { pad_sequences(sequences, options); });
  };
  EXPECT_EQ(refusal({}), "[pad_sequences] there are no sequences. Give at least one");
  EXPECT_EQ(refusal({ones({2}), ones({2}, DType::kBf16)}),
            "[pad_sequences] sequence 1 is bf16[2], and the first one f32[2]. All sequences must "
            "have the same dtype and the same dimensions except for the first");
  EXPECT_THAT(refusal({ones({2, 3}), ones({2, 4})}), HasSubstr("sequence 1 is f32[2, 4]"));
  EXPECT_THAT(refusal({ones({2, 3}), ones({2})}), HasSubstr("sequence 1 is f32[2], and"));
  EXPECT_THAT(refusal({ones({})}), HasSubstr("sequences are [t, ...]; sequence 0 is f32[]"));
  EXPECT_THAT(refusal({Tensor()}), HasSubstr("sequences are [t, ...]"));
  EXPECT_THAT(refusal({transpose(ones({2, 3}))}), HasSubstr("sequence 0 is not dense"));
  EXPECT_EQ(refusal(stairs(2), {.value = 0.5}),
            "[pad_sequences] the value 0.5 does not fit in i64. Use a value that fits");
  EXPECT_THAT(refusal({ones({2}, DType::kU8)}, {.value = -100}), HasSubstr("-100"));
}

TEST(SequenceBatches, ArePaddedToTheirOwnLongest) {
  SequenceBatches batches(
      stairs(5), row_numbers(5),
      {.batches = {.batch_size = 2, .shuffle = false}, .padding = {.value = 7}});
  EXPECT_EQ(batches.steps_per_epoch(), 3);
  Batch batch;
  ASSERT_TRUE(batches.next(batch));
  EXPECT_THAT(batch.images.to_vector<std::int64_t>(), ElementsAre(0, 7, 10, 10));
  EXPECT_THAT(batch.labels.to_vector<std::int64_t>(), ElementsAre(0, 1));
  ASSERT_EQ(batch.more.size(), 1U);
  EXPECT_THAT(batch.more[0].to_vector<std::int64_t>(), ElementsAre(1, 2));
  ASSERT_TRUE(batches.next(batch));
  EXPECT_EQ(batch.images.shape(), (Shape{2, 4}));
  SequenceBatches plain(stairs(5), row_numbers(5), {.give_lengths = false});
  ASSERT_TRUE(plain.next(batch));
  EXPECT_TRUE(batch.more.empty());
}

TEST(SequenceBatches, ByLengthNeedLittlePadding) {
  const std::vector<Tensor> sequences = stairs(12);
  SequenceBatches batches(
      sequences, row_numbers(12),
      {.batches = {.batch_size = 3, .sampler = length_buckets(lengths_of(sequences), 0)}});
  Rows seen;
  for (Batch batch; batches.next(batch);) {
    const Rows lengths = batch.more[0].to_vector<std::int64_t>();
    EXPECT_EQ(lengths[2] - lengths[0], 2);  // three consecutive lengths
    EXPECT_EQ(batch.images.size(1), lengths[2]);
    seen.insert(seen.end(), batch.indices.begin(), batch.indices.end());
  }
  EXPECT_THAT(seen, testing::UnorderedElementsAreArray(row_numbers(12).to_vector<std::int64_t>()));
}

TEST(SequenceBatches, HaveTheOrderOfTensorBatches) {
  const TensorBatchesOptions options{.batch_size = 4, .seed = 6};
  SequenceBatches sequences(stairs(10), row_numbers(10), {.batches = options});
  TensorBatches tensors(row_numbers(10), row_numbers(10), options);
  for (int epoch = 0; epoch < 2; ++epoch) EXPECT_EQ(batches_of(sequences), batches_of(tensors));
}

TEST(SequenceBatches, RefuseWhatDoesNotFit) {
  const auto refusal = [](std::vector<Tensor> sequences, const Tensor& labels) {
    return message_of<ArgumentError>(
        [&] { const SequenceBatches batches(std::move(sequences), labels); });
  };
  EXPECT_EQ(refusal(stairs(3), row_numbers(4)),
            "[SequenceBatches] there are 3 sequences and 4 labels. Give a label for each sequence");
  EXPECT_THAT(refusal({}, row_numbers(4)), HasSubstr("the data set has 0 examples"));
  EXPECT_THAT(refusal({ones({1}), ones({1, 1})}, row_numbers(2)),
              HasSubstr("[SequenceBatches] sequence 1 is f32[1, 1]"));
}

}  // namespace
}  // namespace mezzo::data
