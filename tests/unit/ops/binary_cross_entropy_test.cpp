#include "mezzo/ops/binary_cross_entropy.h"

#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mezzo/ops/arithmetic.h"
#include "mezzo/ops/pointwise.h"
#include "tests/unit/message_of.h"

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

// 1 - sigmoid(8) is 2^-11.6, and sigmoid(8) is 1 in bf16.
TEST(BinaryCrossEntropy, GradientsOf16BitLogitsAreRoundedOnce) {
  const Floats numbers{8, -8, 6, 0.5F};
  const Tensor targets = from_values({1.0F, 0.0F, 1.0F, 0.0F}, {4});
  for (const DType dtype : {DType::kBf16, DType::kF16}) {
    const Tensor low = from_values(numbers, {4}).astype(dtype).set_requires_grad(true);
    const Tensor wide = from_values(numbers, {4}).set_requires_grad(true);
    for (const Tensor& x : {low, wide}) {
      binary_cross_entropy_with_logits(x, targets.astype(x.dtype()), Reduction::kSum).backward();
    }
    EXPECT_EQ(low.grad().to_vector<float>(), wide.grad().astype(dtype).to_vector<float>());
  }
}

TEST(BinaryCrossEntropy, OfCertainAndWrongProbabilitiesIsBounded) {
  const Tensor p = from_values({0.0F, 1.0F, 1.0F}, {3}).set_requires_grad(true);
  const Tensor targets = from_values({1.0F, 0.0F, 1.0F}, {3});
  const Tensor loss = binary_cross_entropy(p, targets, Reduction::kSum);
  EXPECT_EQ(loss.item(), 200);
  loss.backward();
  for (const float g : p.grad().to_vector<float>()) EXPECT_TRUE(std::isfinite(g));
}

// The gradient is 1 / (1 - p) where the target is 0, as long as p (1 - p) is at least 1e-12.
TEST(BinaryCrossEntropy, GradientsOfSmallProbabilitiesAreWhole) {
  const Tensor p = from_values({1e-11, 1e-10, 7.8e-5, 0.5}, {4}).set_requires_grad(true);
  binary_cross_entropy(p, zeros({4}, DType::kF64), Reduction::kSum).backward();
  const auto gradient = p.grad().to_vector<double>();
  for (std::size_t i = 0; i < gradient.size(); ++i) {
    const double want = 1 / (1 - p.data<double>()[i]);
    // 1e-12 is subtracted and added again, each of which rounds by 2^-53 of p (1 - p), or of 1e-12.
    EXPECT_NEAR(gradient[i], want, 8 * 0x1p-53 * want);
  }
}

TEST(BinaryCrossEntropy, NotANumberStays) {
  const Tensor p = from_values({NAN, 0.5F, NAN}, {3});
  const Tensor targets = from_values({1.0F, NAN, 0.0F}, {3});
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kF64}) {
    const auto loss = binary_cross_entropy(p.astype(dtype), targets.astype(dtype), Reduction::kNone)
                          .to_vector<double>();
    for (const double l : loss) EXPECT_TRUE(std::isnan(l)) << name_of(dtype);
  }
}

// 1 - p would round to 1, and its logarithm to 0.
TEST(BinaryCrossEntropy, OfSmallProbabilitiesKeepsThem) {
  const Tensor p = from_values({1e-8F, 1e-4F, 1e-30F}, {3});
  const Tensor targets = zeros({3});
  const Floats loss = binary_cross_entropy(p, targets, Reduction::kNone).to_vector<float>();
  const auto wide =
      binary_cross_entropy(p.astype(DType::kF64), targets.astype(DType::kF64), Reduction::kNone)
          .to_vector<double>();
  for (std::size_t i = 0; i < loss.size(); ++i) {
    const double want = -std::log1p(-static_cast<double>(p.data<float>()[i]));
    EXPECT_DOUBLE_EQ(wide[i], want);
    EXPECT_NEAR(loss[i], want, 4 * 0x1p-24 * want);
  }
}

TEST(BinaryCrossEntropy, GradientsOf16BitProbabilitiesAreThoseOfTheNumbersInF32) {
  const Tensor wide = from_values({0.0F, 1.0F, 0.5F, 0.25F}, {4}).set_requires_grad(true);
  const Tensor targets = from_values({0.0F, 1.0F, 0.0F, 1.0F}, {4});
  binary_cross_entropy(wide, targets).backward();
  for (const DType dtype : {DType::kBf16, DType::kF16}) {
    const Tensor p = wide.detach().astype(dtype).set_requires_grad(true);
    binary_cross_entropy(p, targets.astype(dtype)).backward();
    EXPECT_EQ(p.grad().to_vector<float>(), wide.grad().astype(dtype).to_vector<float>());
  }
}

TEST(BinaryCrossEntropy, BothFormsAgree) {
  const Tensor logits = from_values({-3.0F, -0.5F, 0.0F, 2.0F}, {2, 2});
  const Tensor targets = from_values({0.0F, 1.0F, 0.25F, 0.5F}, {2, 2});
  const double a = binary_cross_entropy_with_logits(logits, targets).item();
  const double b = binary_cross_entropy(sigmoid(logits), targets).item();
  // Four terms of about 1, each from a probability with an error of 2^-24 relative to a p of at
  // least 0.04.
  EXPECT_NEAR(a, b, 4 * std::ldexp(1.0, -24) / 0.04);
}

TEST(BinaryCrossEntropy, AMeanOfNothingIsRefusedByName) {
  const Tensor x = ones({0});
  EXPECT_THAT(message_of<ArgumentError>([&] { binary_cross_entropy(x, x); }),
              testing::StartsWith("[binary_cross_entropy] there is nothing to average"));
  EXPECT_THAT(
      message_of<ArgumentError>([&] { binary_cross_entropy_with_logits(x, x); }),
      testing::StartsWith("[binary_cross_entropy_with_logits] there is nothing to average"));
}

}  // namespace
}  // namespace mezzo
