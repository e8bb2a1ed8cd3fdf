// Tests the errors of gradients on numbers that can be checked by hand.
#include "mezzo/tune/gradient_error.h"

#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "mezzo/core/error.h"

namespace mezzo::tune {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

NamedTensor named(const char* name, const std::vector<float>& values) {
  return {name, from_values<float>(values, {static_cast<std::int64_t>(values.size())})};
}

const StepGradients kExact{.loss = 2, .tensors = {named("a", {3, 4}), named("b", {1, 0, 0, 0})}};

TEST(GradientErrors, EveryParameterCountsTheSame) {
  const std::vector<NamedTensor> found{named("a", {3, 4.5F}), named("b", {1, 0.5F, 0, 0})};
  const GradientError error = error_of(kExact, found, 2.02, 1, {});
  EXPECT_DOUBLE_EQ(error.total, std::sqrt((0.1 * 0.1 + 0.5 * 0.5) / 2));
  EXPECT_NEAR(error.loss, 0.01, 1e-12);
  EXPECT_EQ(error.worst.name, "b");
  EXPECT_DOUBLE_EQ(error.worst.error, 0.5);
  const double product = 3 * 3 + 4 * 4.5 + 1;
  EXPECT_DOUBLE_EQ(error.cosine, product / std::sqrt(26.0 * (9 + 4.5 * 4.5 + 1.25)));
}

TEST(GradientErrors, ScaledGradientsAreDivided) {
  const std::vector<NamedTensor> found{named("a", {3 * 1024, 4 * 1024}),
                                       named("b", {1024, 0, 0, 0})};
  const GradientError error = error_of(kExact, found, 2, 1024, {});
  EXPECT_EQ(error.total, 0);
  EXPECT_EQ(error.cosine, 1);
  EXPECT_EQ(error.scale, 1024);
}

TEST(GradientErrors, ALostGradientHasAnErrorOfOne) {
  const std::vector<NamedTensor> found{named("a", {3, 4}), named("b", {0, 0, 0, 0})};
  const GradientError error = error_of(kExact, found, 2, 1, {});
  EXPECT_EQ(error.worst.name, "b");
  EXPECT_EQ(error.worst.error, 1);
  EXPECT_EQ(error.worst.lost, 1);
  EXPECT_EQ(error.most_lost, 1);
  EXPECT_DOUBLE_EQ(error.lost, 1.0 / 3);
  EXPECT_TRUE(error.is_finite());
}

TEST(GradientErrors, AnInfinityIsNoNumberLikeOthers) {
  const std::vector<NamedTensor> found{named("a", {3, kInf}), named("b", {1, 0, 0, 0})};
  const GradientError error = error_of(kExact, found, 2, 1, {});
  EXPECT_FALSE(error.is_finite());
  EXPECT_EQ(error.worst.name, "a");
  EXPECT_DOUBLE_EQ(error.not_finite, 1.0 / 6);
}

TEST(GradientErrors, WhatIsLeftOutDoesNotCount) {
  const std::vector<NamedTensor> found{named("a", {3, 4}), named("b", {9, 9, 9, 9})};
  EXPECT_EQ(error_of(kExact, found, 2, 1, {false, true}).total, 0);
}

TEST(GradientErrors, OtherGradientsCannotBeCompared) {
  EXPECT_THROW(error_of(kExact, {{named("a", {3, 4})}}, 2, 1, {}), ArgumentError);
  EXPECT_THROW(error_of(kExact, {{named("a", {3, 4}), named("c", {1, 0, 0, 0})}}, 2, 1, {}),
               ArgumentError);
}

TEST(GradientErrors, TheMeanOfBatches) {
  GradientError a{.total = 0.3, .loss = 0.1, .cosine = 0.9, .worst = {.name = "a", .error = 0.3}};
  GradientError b{
      .total = 0.4, .loss = 0.3, .cosine = 0.7, .worst = {.name = "b", .error = 0.8}, .scale = 0.5};
  const GradientError errors[] = {a, b};
  const GradientError mean = mean_of(errors);
  EXPECT_DOUBLE_EQ(mean.total, std::sqrt((0.09 + 0.16) / 2));
  EXPECT_DOUBLE_EQ(mean.loss, 0.2);
  EXPECT_DOUBLE_EQ(mean.cosine, 0.8);
  EXPECT_EQ(mean.worst.name, "b");
  EXPECT_EQ(mean.scale, 0.5);
}

}  // namespace
}  // namespace mezzo::tune
