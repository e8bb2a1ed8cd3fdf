#include "mezzo/ops/piecewise.h"

#include <cmath>
#include <limits>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mezzo/autograd/engine.h"
#include "mezzo/ops/arithmetic.h"
#include "mezzo/ops/dispatcher/dispatch.h"
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

void expect_clamp_gradients() {
  const Floats x{-kInf, -2, -1, -0.0F, 0, 1.5F, 2, 2.5F, kInf, kNan};
  const auto both = [](const Tensor& t) { return clamp(t, -1, 2); };
  EXPECT_THAT(gradient(both, x), ElementsAre(0, 0, 0, 1, 1, 1, 0, 0, 0, 0));
  const auto min_only = [](const Tensor& t) { return clamp(t, -1, kInf); };
  EXPECT_THAT(gradient(min_only, x), ElementsAre(0, 0, 0, 1, 1, 1, 1, 1, 1, 0));
  const auto max_only = [](const Tensor& t) { return clamp(t, -kInf, 2); };
  EXPECT_THAT(gradient(max_only, x), ElementsAre(1, 1, 1, 1, 1, 1, 0, 0, 0, 0));
  const auto relu6 = [](const Tensor& t) { return clamp(t, 0, 6); };
  EXPECT_THAT(gradient(relu6, {-0.0F, 0, 0x1p-149F, 6, 5.9F}), ElementsAre(0, 0, 1, 0, 1));
  const auto nothing = [](const Tensor& t) { return clamp(t, 1, 1); };
  EXPECT_THAT(gradient(nothing, {0, 1, 2}), ElementsAre(0, 0, 0));
  const auto all = [](const Tensor& t) { return clamp(t, -kInf, kInf); };
  EXPECT_THAT(gradient(all, x), ElementsAre(1, 1, 1, 1, 1, 1, 1, 1, 1, 0));
}

// PyTorch 2.14 and 2.15 give the same, except that there an infinite bound cuts infinities off.
TEST(Clamp, GradientIsZeroAtTheBounds) {
  expect_clamp_gradients();
  disable_kernels({"cpu_simd"});  // the plain loop
  expect_clamp_gradients();
  disable_kernels({});
}

// 0.1 is 0.10009765625 in bf16, so a value that was clamped to it is at the bound.
TEST(Clamp, BoundsAreRoundedLikeX) {
  for (const DType dtype : {DType::kF32, DType::kBf16, DType::kF16, DType::kF64}) {
    const Tensor x = full({5}, 0.1, dtype).set_requires_grad(true);
    sum(clamp(x, 0.1, kInf)).backward();
    EXPECT_THAT(x.grad().to_vector<float>(), testing::Each(0)) << name_of(dtype);
  }
}

TEST(Clamp, FiniteBoundsStayFinite) {
  for (const DType dtype : {DType::kF32, DType::kBf16, DType::kF16}) {
    const Tensor x = row({-kInf, 3, kInf}).astype(dtype);
    const auto most = static_cast<float>(max_of(dtype));
    EXPECT_THAT(clamp(x, -1e300, 1e300).to_vector<float>(), ElementsAre(-most, 3, most))
        << name_of(dtype);
    EXPECT_THAT(clamp(x, -kInf, kInf).to_vector<float>(), ElementsAre(-kInf, 3, kInf))
        << name_of(dtype);
  }
}

TEST(Clamp, TheSecondGradientStopsWhereTheFirstDoes) {
  const Tensor x = row({-1, 0, 2, 3}).set_requires_grad(true);
  const Tensor seed = ones({4}).set_requires_grad(true);
  const Tensor outputs[] = {clamp(x, -1, 2)};
  const Tensor seeds[] = {seed};
  sum(grad(outputs, std::span(&x, 1), seeds, {.create_graph = true})[0] * 7).backward();
  EXPECT_THAT(seed.grad().to_vector<float>(), ElementsAre(0, 7, 0, 0));
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
