// Tests the divisor of cross-entropy means.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mezzo/core/random.h"
#include "mezzo/ops/arithmetic.h"
#include "mezzo/ops/losses.h"
#include "mezzo/ops/shape_ops.h"
#include "tests/unit/message_of.h"

namespace mezzo {
namespace {

using testing::HasSubstr;

Tensor counted_labels() { return from_values<std::int64_t>({0, 2, 2, 1, 0, 2}, {2, 3}); }
Tensor counted_weights() { return from_values<float>({1, 0.25, 8}, {3}); }

TEST(CrossEntropyCount, CountsOrWeighsWhatIsNotIgnored) {
  EXPECT_EQ(cross_entropy_count(counted_labels(), {}).item(), 6);
  EXPECT_EQ(cross_entropy_count(counted_labels(), {.ignore_index = 2}).item(), 3);
  EXPECT_EQ(cross_entropy_count(counted_labels(), {.class_weights = counted_weights()}).item(),
            26.25);
  EXPECT_EQ(
      cross_entropy_count(counted_labels(), {.ignore_index = 2, .class_weights = counted_weights()})
          .item(),
      2.25);
  EXPECT_EQ(cross_entropy_count(counted_labels().astype(DType::kI32), {}).shape(), Shape{});
}

// The operation that computes the loss reports such labels.
TEST(CrossEntropyCount, ALabelThatIsNoClassCountsNothing) {
  const Tensor labels = from_values<std::int64_t>({-3, 1, 3}, {3});
  EXPECT_EQ(cross_entropy_count(labels, {.class_weights = counted_weights()}).item(), 0.25);
}

// Equal bit for bit, since the additions are the same.
TEST(CrossEntropyCount, IsWhatTheMeanIsDividedBy) {
  Generator generator(1);
  const Tensor logits = randn({6, 3}, generator);
  const Tensor labels = reshape(counted_labels(), {6});
  for (const double smoothing : {0.0, 0.1}) {
    CrossEntropyOptions options{
        .label_smoothing = smoothing, .ignore_index = 1, .class_weights = counted_weights()};
    const double mean = cross_entropy(logits, labels, options).item();
    options.reduction = Reduction::kSum;
    const Tensor sum = cross_entropy(logits, labels, options);
    EXPECT_EQ((sum / cross_entropy_count(labels, options)).item(), mean);
  }
}

TEST(CrossEntropyCount, RefusesWhatHasNoCount) {
  EXPECT_THAT(message_of<ArgumentError>([] {
                cross_entropy_count(ones({2, 3}), {});
              }),
              HasSubstr("[cross_entropy_count] labels that are counted are class numbers, i64; "
                        "these are f32[2, 3]"));
  EXPECT_THAT(message_of<ArgumentError>([] {
                cross_entropy_count(counted_labels(), {.class_weights = ones({2, 2})});
              }),
              HasSubstr("the class weights are f32[2, 2]"));
}

}  // namespace
}  // namespace mezzo
