#include "mezzo/ops/piecewise.h"

#include <cmath>
#include <limits>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mezzo/ops/reduce.h"

namespace mezzo {
namespace {

using Floats = std::vector<float>;
using testing::ElementsAre;

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

Tensor row(const Floats& values) {
  return from_values(values, {static_cast<std::int64_t>(values.size())});
}

Floats gradient(Tensor (*function)(const Tensor&), const Floats& values) {
  const Tensor x = row(values).set_requires_grad(true);
  sum(function(x)).backward();
  return x.grad().to_vector<float>();
}

TEST(LeakyRelu, AtSpecialNumbers) {
  const Floats y = leaky_relu(row({-2, -0.0F, 0, 3, kInf, -kInf, kNan}), 0.5).to_vector<float>();
  EXPECT_THAT(Floats(y.begin(), y.end() - 1), ElementsAre(-1, 0, 0, 3, kInf, -kInf));
  EXPECT_TRUE(std::signbit(y[1]));
  EXPECT_TRUE(std::isnan(y[6]));
}

// Zero counts as not positive, as in PyTorch.
TEST(LeakyRelu, GradientAtItsBend) {
  const auto half = [](const Tensor& x) { return leaky_relu(x, 0.5); };
  EXPECT_THAT(gradient(half, {-2, -0.0F, 0, 3}), ElementsAre(0.5F, 0.5F, 0.5F, 1));
}

TEST(Clamp, AtSpecialNumbers) {
  const Floats y = clamp(row({-2, 0.5F, 3, kInf, -kInf, kNan}), -1, 2).to_vector<float>();
  EXPECT_THAT(Floats(y.begin(), y.end() - 1), ElementsAre(-1, 0.5F, 2, 2, -1));
  EXPECT_TRUE(std::isnan(y[5]));
  EXPECT_THAT(clamp(row({-2, 5}), 0, kInf).to_vector<float>(), ElementsAre(0, 5));
  EXPECT_THAT(clamp(row({-2, 5}), 1, 1).to_vector<float>(), ElementsAre(1, 1));
}

TEST(Clamp, GradientPassesAtTheBounds) {
  const auto between = [](const Tensor& x) { return clamp(x, -1, 2); };
  EXPECT_THAT(gradient(between, {-2, -1, 0, 2, 2.5F, kNan}), ElementsAre(0, 1, 1, 1, 0, 0));
}

TEST(Abs, AtSpecialNumbers) {
  const Floats y = abs(row({-2, -0.0F, 3, -kInf, kNan})).to_vector<float>();
  EXPECT_THAT(Floats(y.begin(), y.end() - 1), ElementsAre(2, 0, 3, kInf));
  EXPECT_FALSE(std::signbit(y[1]));
  EXPECT_TRUE(std::isnan(y[4]));
}

TEST(Abs, GradientIsTheSign) {
  EXPECT_THAT(gradient(abs, {-2, -0.0F, 0, 3, -kInf, kNan}), ElementsAre(-1, 0, 0, 1, -1, 0));
}

}  // namespace
}  // namespace mezzo
