#include "mezzo/train/metrics.h"

#include <limits>
#include <map>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mezzo/ops/cast.h"
#include "tests/unit/message_of.h"

namespace mezzo::train {
namespace {

using testing::HasSubstr;

TEST(Metrics, TopKCountsTheLabelsAmongTheLargest) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const Tensor logits = from_values({3.0F, 1.0F, 2.0F,  // labels 0, 2, 1, 1
                                     3.0F, 1.0F, 2.0F,  //
                                     1.0F, 1.0F, 0.0F,  // a tie: class 0 counts as larger
                                     0.0F, nan, 0.0F},
                                    {4, 3});
  const Tensor labels = from_values<std::int64_t>({0, 2, 1, 1}, {4});
  for (const auto& [name, expected] :
       std::map<std::string, double>{{"accuracy", 0.25}, {"top2", 0.75}, {"top3", 0.75}}) {
    const auto metric = make_metric(name);
    metric->update(logits, labels, {});
    EXPECT_EQ(metric->name(), name);
    EXPECT_EQ(metric->value(), expected) << name;
    metric->reset();
    EXPECT_THROW(metric->value(), ArgumentError);
  }
}

// Two images of three pixels each; label 9 does not count.
TEST(Metrics, TopKOfPlacesCountsEach) {
  const Tensor logits = from_values({1.0F, 0.0F, 2.0F,  // class 0 of the first image
                                     0.0F, 1.0F, 3.0F,  // class 1
                                     5.0F, 5.0F, 5.0F,  // of the second
                                     4.0F, 6.0F, 4.0F},
                                    {2, 2, 1, 3});
  const Tensor labels = from_values<std::int64_t>({0, 1, 0, 1, 9, 0}, {2, 1, 3});
  TopK accuracy(1, 9);
  accuracy.update(logits, labels, {});
  EXPECT_EQ(accuracy.value(), 3.0 / 5);
  accuracy.update(to_format(logits, Format::kChannelsLast), labels, {});
  EXPECT_EQ(accuracy.value(), 6.0 / 10);
  EXPECT_THROW(TopK().update(logits, labels, {}), ArgumentError);
  EXPECT_THROW(TopK().update(logits, zeros({2, 3}, DType::kI64), {}), ArgumentError);
  // Regression targets such as 0.7 would all pass for class 0.
  EXPECT_THAT(message_of([] {
                TopK().update(zeros({2, 1}), full({2}, 0.7), {});
              }),
              HasSubstr("labels are class numbers, which are integers, but these are f32[2]"));
}

TEST(Metrics, LossIsWeightedByTheExamplesOfABatch) {
  MeanLoss loss;
  loss.update(zeros({3, 2}), zeros({3}, DType::kI64), {.sum = 3, .count = 3});
  loss.update(zeros({1, 2}), zeros({1}, DType::kI64), {.sum = 5, .count = 1});
  EXPECT_EQ(loss.value(), 2);
}

// Names of other frameworks; the metric itself has one name.
TEST(Metrics, HaveTheirUsualNames) {
  const std::pair<const char*, const char*> names[] = {
      {"acc", "accuracy"},           {"acc1", "accuracy"},    {"acc@1", "accuracy"},
      {"top1", "accuracy"},          {"acc5", "top5"},        {"acc@5", "top5"},
      {"top_5_accuracy", "top5"},    {"val_acc", "accuracy"}, {"val_loss", "loss"},
      {"top_1_accuracy", "accuracy"}};
  for (const auto& [name, own] : names) {
    EXPECT_EQ(make_metric(name)->name(), own) << name;
    EXPECT_EQ(metric_name(name), own) << name;
  }
  EXPECT_EQ(metric_name("f1"), "f1");
}

TEST(Metrics, UnknownNamesAndLabelsAreNamed) {
  for (const char* name : {"precision", "top", "top0", "top-1", "top5x", "top_5", "top__accuracy",
                           "acc@", "acc-1", "val_", "val_precision", "val_val_loss", "accuracy5"}) {
    EXPECT_THROW(make_metric(name), ArgumentError) << name;
  }
  try {
    TopK().update(zeros({1, 3}), from_values<std::int64_t>({7}, {1}), {});
    FAIL() << "nothing was thrown";
  } catch (const ArgumentError& error) {
    EXPECT_THAT(error.what(), HasSubstr("the label 7 is none of the 3 classes"));
  }
}

}  // namespace
}  // namespace mezzo::train
