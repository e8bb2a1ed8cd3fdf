#include "mezzo/ops/binary_cross_entropy.h"

#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mezzo/ops/arithmetic.h"
#include "mezzo/ops/pointwise.h"

namespace mezzo {
namespace {

using Floats = std::vector<float>;

TEST(BinaryCrossEntropy, WithLogitsIsRightFarOut) {
  const Tensor logits = from_values({100.0F, -100.0F, 100.0F, 0.0F}, {4});
  const Tensor targets = from_values({1.0F, 0.0F, 0.0F, 1.0F}, {4});
  const Floats loss =
      binary_cross_entropy_with_logits(logits, targets, Reduction::kNone).to_vector<float>();
  EXPECT_EQ(loss[0], std::exp(-100.0F));
  EXPECT_EQ(loss[1], std::exp(-100.0F));
  EXPECT_EQ(loss[2], 100.0F);
  EXPECT_FLOAT_EQ(loss[3], std::log(2.0F));
}

TEST(BinaryCrossEntropy, OfCertainAndWrongProbabilitiesIsBounded) {
  const Tensor p = from_values({0.0F, 1.0F, 1.0F}, {3}).set_requires_grad(true);
  const Tensor targets = from_values({1.0F, 0.0F, 1.0F}, {3});
  const Tensor loss = binary_cross_entropy(p, targets, Reduction::kSum);
  EXPECT_EQ(loss.item(), 200);
  loss.backward();
  for (const float g : p.grad().to_vector<float>()) EXPECT_TRUE(std::isfinite(g));
}

TEST(BinaryCrossEntropy, BothFormsAgree) {
  const Tensor logits = from_values({-3.0F, -0.5F, 0.0F, 2.0F}, {2, 2});
  const Tensor targets = from_values({0.0F, 1.0F, 0.25F, 0.5F}, {2, 2});
  const double a = binary_cross_entropy_with_logits(logits, targets).item();
  const double b = binary_cross_entropy(sigmoid(logits), targets).item();
  // Four terms of about 1, each from a probability with an error of 2^-24 over a p of at least
  // 0.04.
  EXPECT_NEAR(a, b, 4 * std::ldexp(1.0, -24) / 0.04);
}

}  // namespace
}  // namespace mezzo
