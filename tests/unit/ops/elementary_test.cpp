// Tests element-wise functions at their limits, beyond the sweep.
#include "mezzo/ops/elementary.h"

#include <cmath>
#include <functional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mezzo/autograd/engine.h"
#include "mezzo/ops/reduce.h"

namespace mezzo {
namespace {

using testing::ElementsAre;
using testing::IsNan;

std::vector<float> of(Tensor (*f)(const Tensor&), std::vector<float> values) {
  const auto size = static_cast<std::int64_t>(values.size());
  return f(from_values(values, {size})).to_vector<float>();
}

// The largest error over a range, in units in the last place of the result.
double largest_error(Tensor (*f)(const Tensor&), const std::function<double(double)>& exact,
                     double low, double high) {
  constexpr std::int64_t kCount = 20000;
  std::vector<float> x(kCount);
  for (std::int64_t i = 0; i < kCount; ++i) {
    x[i] = static_cast<float>(low + (high - low) * static_cast<double>(i) / kCount);
  }
  const auto got = of(f, x);
  double worst = 0;
  for (std::int64_t i = 0; i < kCount; ++i) {
    const double want = exact(x[i]);
    const double ulp = std::ldexp(1.0, std::max(std::ilogb(want), -126) - 23);
    if (want != 0) worst = std::max(worst, std::abs(got[i] - want) / ulp);
  }
  return worst;
}

TEST(Elementary, ErrorsAreAFewUnits) {
  EXPECT_LE(largest_error(
                log1p, [](double x) { return std::log1p(x); }, -0.999, 10),
            4);
  EXPECT_LE(largest_error(
                log1p, [](double x) { return std::log1p(x); }, -1e-6, 1e-6),
            4);
  EXPECT_LE(largest_error(
                erf, [](double x) { return std::erf(x); }, -4, 4),
            4);
  EXPECT_LE(largest_error(
                erf, [](double x) { return std::erf(x); }, -1e-3, 1e-3),
            4);
  EXPECT_LE(largest_error(
                rsqrt, [](double x) { return 1 / std::sqrt(x); }, 1e-9, 50),
            2);
  EXPECT_LE(largest_error(
                logsigmoid, [](double x) { return -std::log1p(std::exp(-x)); }, -40, 40),
            6);
}

TEST(Elementary, AnglesOfAnySizeAreReduced) {
  for (const double most : {1.0, 100.0, 5999.0, 1e6, 1e30}) {
    std::vector<float> x;
    for (int i = -50; i <= 50; ++i) x.push_back(static_cast<float>(most * i / 50));
    const auto sines = of(sin, x);
    const auto cosines = of(cos, x);
    for (std::size_t i = 0; i < x.size(); ++i) {
      EXPECT_NEAR(sines[i], std::sin(double{x[i]}), 0x1p-23) << x[i];
      EXPECT_NEAR(cosines[i], std::cos(double{x[i]}), 0x1p-23) << x[i];
    }
  }
}

TEST(Elementary, BitsOfAnAngleDoNotDependOnItsNeighbours) {
  for (const auto f : {&sin, &cos}) {
    for (const float angle : {1.0F, 2.5F, 3000.1F, 7000.0F}) {
      const float alone = of(f, {angle, 2})[0];
      EXPECT_EQ(of(f, {angle, 7000})[0], alone) << angle;
      EXPECT_EQ(of(f, {angle, NAN})[0], alone) << angle;
    }
  }
}

TEST(Elementary, SoftplusRefusesBetasThatVanishInF32) {
  for (const double beta : {1e-60, 1e60}) {
    EXPECT_THROW(softplus(ones({2}), beta), ArgumentError) << beta;
  }
}

TEST(Elementary, LimitsAreThoseOfC) {
  EXPECT_THAT(of(log1p, {-1, -2, INFINITY, 0, 1e-30F, NAN}),
              ElementsAre(-INFINITY, IsNan(), INFINITY, 0, 1e-30F, IsNan()));
  EXPECT_THAT(of(rsqrt, {0, -1, INFINITY, 4, NAN}),
              ElementsAre(INFINITY, IsNan(), 0, 0.5F, IsNan()));
  EXPECT_THAT(of(erf, {INFINITY, -INFINITY, 0, 9, NAN}), ElementsAre(1, -1, 0, 1, IsNan()));
  EXPECT_THAT(of(sin, {0, INFINITY, -INFINITY, NAN}), ElementsAre(0, IsNan(), IsNan(), IsNan()));
  EXPECT_THAT(of(cos, {0, INFINITY, -INFINITY, NAN}), ElementsAre(1, IsNan(), IsNan(), IsNan()));
}

TEST(Elementary, SoftplusAndLogsigmoidNeitherOverflowNorUnderflow) {
  const auto soft = [](const Tensor& x) { return softplus(x); };
  EXPECT_THAT(of(soft, {INFINITY, -INFINITY, 1000, -1000, NAN}),
              ElementsAre(INFINITY, 0, 1000, 0, IsNan()));
  EXPECT_THAT(of(logsigmoid, {INFINITY, -INFINITY, -1000, NAN}),
              ElementsAre(0, -INFINITY, -1000, IsNan()));
  // log(sigmoid(-20)) by two operations is -inf in f16.
  const Tensor x = full({3}, -20, DType::kF16);
  EXPECT_THAT(logsigmoid(x).to_vector<float>(), testing::Each(-20));
}

TEST(Elementary, SoftplusDividesByBeta) {
  const Tensor y = softplus(from_values({0.25F}, {1}), 2);
  EXPECT_NEAR(y.to_vector<double>()[0], std::log1p(std::exp(0.5)) / 2, 1e-7);
}

TEST(Elementary, TheGradientOfLogsigmoidIsBounded) {
  const Tensor x = from_values({-1000.0F, 0.0F, 1000.0F}, {3}).set_requires_grad(true);
  const Tensor loss = sum(logsigmoid(x));
  EXPECT_THAT(grad({&loss, 1}, {&x, 1})[0].to_vector<float>(), ElementsAre(1, 0.5F, 0));
}

}  // namespace
}  // namespace mezzo
