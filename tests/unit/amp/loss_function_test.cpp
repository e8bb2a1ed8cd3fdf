// Tests how losses describe themselves: means over examples, sums, or means over a count.
#include "mezzo/amp/loss_function.h"

#include <cmath>
#include <functional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mezzo/nn/loss.h"
#include "mezzo/ops/cast.h"
#include "mezzo/ops/reduce.h"
#include "tests/unit/message_of.h"

namespace mezzo::amp {
namespace {

Tensor even_logits() { return zeros({3, 2}); }  // both classes are equally likely

Tensor plain(const Tensor& logits, const Tensor& labels) { return cross_entropy(logits, labels); }
Tensor number_of(const Tensor& labels) { return sum(ones(labels.shape())); }

Tensor labels_of(std::vector<std::int64_t> labels) {
  const auto n = static_cast<std::int64_t>(labels.size());
  return from_values(labels, {n});
}

TEST(LossFunction, WhatSaysNothingIsAMeanOverExamples) {
  const Tensor labels = labels_of({0, 1, 0});
  const LossFunction::Function function = plain;
  for (const LossFunction& loss :
       {LossFunction(plain), LossFunction(function), LossFunction(nn::CrossEntropyLoss()),
        LossFunction([](const Tensor&x, const Tensor&y) { return plain(x, y); })}) {
    EXPECT_FALSE(loss == nullptr);
    EXPECT_FALSE(loss.adds_up());
    EXPECT_FALSE(loss.count(labels).defined());
    EXPECT_FALSE(loss.ignore_index().has_value());
    const BatchLoss batch = loss.of_batch(even_logits(), labels);
    EXPECT_EQ(batch.count, 3);
    EXPECT_EQ(batch.value(), loss(even_logits(), labels).item());
  }
}

TEST(LossFunction, CrossEntropyCountsItsLabels) {
  const LossFunction ignoring = nn::CrossEntropyLoss({.ignore_index = 7});
  EXPECT_EQ(ignoring.ignore_index(), 7);
  EXPECT_EQ(ignoring.count(labels_of({7, 1, 0})).item(), 2);
  const LossFunction weighted =
      nn::CrossEntropyLoss({.class_weights = from_values<float>({0.5, 8}, {2})});
  const Tensor labels = labels_of({0, 1, 0});
  EXPECT_EQ(weighted.count(labels).item(), 9);
  EXPECT_NEAR(weighted.of_batch(even_logits(), labels).value(), std::log(2.0), 4 * 0x1p-24);
  // For probabilities, means are over the examples, whatever the class weights.
  EXPECT_FALSE(weighted.count(full({3, 2}, 0.5)).defined());
  EXPECT_TRUE(std::isnan(ignoring.of_batch(even_logits(), labels_of({7, 7, 7})).value()));
}

// A reference to a loss describes itself like the loss.
TEST(LossFunction, AReferenceSaysTheSame) {
  nn::CrossEntropyLoss ignoring({.ignore_index = 7});
  const Tensor labels = labels_of({7, 1, 0});
  for (const LossFunction& loss :
       {LossFunction(std::cref(ignoring)), LossFunction(std::ref(ignoring))}) {
    EXPECT_EQ(loss.ignore_index(), 7);
    EXPECT_TRUE(loss.reads_16_bits());
    EXPECT_EQ(loss.count(labels).item(), 2);
    EXPECT_NEAR(loss.of_batch(even_logits(), labels).value(),
                ignoring(even_logits(), labels).item(), 4 * 0x1p-24);
  }
  const nn::MseLoss sum(Reduction::kSum);
  EXPECT_TRUE(LossFunction(std::cref(sum)).adds_up());
}

// Losses of single examples are not divided, whatever counts.
TEST(LossFunction, WithoutAReductionNothingIsCounted) {
  const nn::CrossEntropyLoss single({.reduction = Reduction::kNone, .ignore_index = 7});
  const LossFunction loss = single;
  EXPECT_FALSE(loss.count(labels_of({7, 1, 0})).defined());
  EXPECT_THROW(loss.of_batch(even_logits(), labels_of({7, 1, 0})), ArgumentError);
}

TEST(LossFunction, SumsAddUp) {
  for (const LossFunction& loss : {LossFunction(nn::MseLoss(Reduction::kSum)),
                                   LossFunction(SumLoss([](const auto&x, const auto&y) {
                                     return mse_loss(x, y, Reduction::kSum);
                                   }))}) {
    EXPECT_TRUE(loss.adds_up());
    EXPECT_FALSE(loss.count(ones({3, 2})).defined());
    const BatchLoss batch = loss.of_batch(even_logits(), ones({3, 2}));
    EXPECT_EQ(batch.sum, 6);
    EXPECT_EQ(batch.value(), 6);
  }
  EXPECT_FALSE(LossFunction(nn::MseLoss()).adds_up());
  const LossFunction sum = nn::CrossEntropyLoss({.reduction = Reduction::kSum, .ignore_index = 7});
  EXPECT_TRUE(sum.adds_up());
  EXPECT_FALSE(sum.count(labels_of({7})).defined());
}

TEST(LossFunction, ACountMayHaveAnyDtypeAndMustBeOneNumber) {
  const LossFunction counted = CountedLoss(
      plain, [](const Tensor& labels) { return number_of(labels).astype(DType::kI64); }, 4);
  EXPECT_EQ(counted.ignore_index(), 4);
  EXPECT_EQ(counted.count(labels_of({1, 1})).dtype(), DType::kF32);
  const LossFunction wrong = CountedLoss(plain, [](const Tensor& labels) { return labels; });
  EXPECT_THAT(message_of<ArgumentError>([&] {
                wrong.count(labels_of({1, 1}));
              }),
              testing::HasSubstr("but must be a scalar"));
}

TEST(LossFunction, NullIsNull) {
  const LossFunction::Function none;
  EXPECT_TRUE(LossFunction(nullptr) == nullptr);
  EXPECT_TRUE(LossFunction(none) == nullptr);
  EXPECT_THROW(CountedLoss(none, number_of), ArgumentError);
  EXPECT_THROW(CountedLoss(plain, nullptr), ArgumentError);
  EXPECT_THROW(SumLoss(nullptr), ArgumentError);
}

}  // namespace
}  // namespace mezzo::amp
