#include "mezzo/ops/softmax.h"

#include <cmath>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mezzo/core/random.h"
#include "mezzo/ops/arithmetic.h"
#include "mezzo/ops/cast.h"
#include "mezzo/ops/pointwise.h"
#include "mezzo/ops/reduce.h"
#include "tests/unit/special_values.h"

namespace mezzo {
namespace {

using Floats = std::vector<float>;

TEST(Softmax, LargeLogitsDoNotOverflow) {
  for (const float offset : {1e4F, -1e4F, 3e38F, -3e38F}) {
    const Tensor x = from_values({offset, offset, offset, offset}, {1, 4});
    EXPECT_EQ(softmax(x).to_vector<float>(), Floats(4, 0.25F)) << offset;
    const Floats logs = log_softmax(x).to_vector<float>();
    EXPECT_THAT(logs, testing::Each(testing::FloatEq(-std::log(4.0F)))) << offset;
  }
  const Tensor x = from_values({1000.0F, 0.0F}, {1, 2});
  EXPECT_EQ(softmax(x).to_vector<float>(), (Floats{1, 0}));
  EXPECT_EQ(log_softmax(x).to_vector<float>(), (Floats{0, -1000}));  // exact where softmax is 0
}

TEST(Softmax, MaskedPlacesGetNothing) {
  const Tensor x = from_values({0.0F, -kInf, 0.0F, -kInf}, {1, 4});
  EXPECT_EQ(softmax(x).to_vector<float>(), (Floats{0.5F, 0, 0.5F, 0}));
  EXPECT_EQ(log_softmax(x).to_vector<float>()[1], -kInf);
}

// softmax along `axis` of two rows: the one of only `bad` is nan, the other, of equal values, is
// even.
void expect_spoilt_row(float bad, std::int64_t n, std::int64_t axis) {
  const Tensor x = full({2, n}, 0);
  fill(alias(x, {n}, {1}, 0), bad);  // the first row
  const Floats y = softmax(x, axis).to_vector<float>();
  for (std::int64_t j = 0; j < n; ++j) {
    EXPECT_TRUE(std::isnan(y[static_cast<std::size_t>(j)])) << bad;
    EXPECT_FLOAT_EQ(y[static_cast<std::size_t>(n + j)], 1.0F / static_cast<float>(n));
  }
}

TEST(Softmax, ARowWithoutAnythingIsNan) {
  for (const float bad : {-kInf, kInf, kNan}) {
    for (const std::int64_t n : {3, 16, 37}) {
      for (const std::int64_t axis : {1, -1}) expect_spoilt_row(bad, n, axis);
    }
  }
}

TEST(Softmax, OneNanSpoilsItsRowOnly) {
  const Tensor x = from_values({0.0F, kNan, 1.0F, 0.0F, 0.0F, 0.0F}, {2, 3});
  const Floats y = softmax(x, 1).to_vector<float>();
  for (std::size_t j = 0; j < 3; ++j) EXPECT_TRUE(std::isnan(y[j]));
  EXPECT_FLOAT_EQ(y[3], 1.0F / 3);
  const Floats z = softmax(x, 0).to_vector<float>();
  EXPECT_TRUE(std::isnan(z[1]) && std::isnan(z[4]));
  EXPECT_FLOAT_EQ(z[0], 0.5F);
}

TEST(Softmax, LongRowsAddUpToOne) {
  Generator generator(3);
  const Tensor x = randn({3, 50000}, generator);
  for (const double total : sum(softmax(x), {1}).to_vector<double>()) {
    EXPECT_NEAR(total, 1, 0x1p-19);  // blocks of 64, and up to 800 blocks per lane
  }
  const Floats equal = softmax(zeros({1, 50000})).to_vector<float>();
  EXPECT_THAT(equal, testing::Each(testing::FloatEq(1.0F / 50000)));
}

TEST(Softmax, EveryAxisOfEveryLayoutAgrees) {
  Generator generator(4);
  const Tensor x = randn({3, 19, 7, 5}, generator);
  const Tensor last = to_format(x, Format::kChannelsLast);
  for (const std::int64_t axis : {0, 1, 2, 3}) {
    const Tensor wide = softmax(x.astype(DType::kF64), axis);
    const auto want = wide.to_vector<double>();
    for (const Tensor& layout : {x, last}) {
      const Tensor y = softmax(layout, axis);
      EXPECT_EQ(y.format(), layout.format());
      const auto got = y.to_vector<double>();
      for (std::size_t i = 0; i < want.size(); ++i) {
        ASSERT_NEAR(got[i], want[i], 8 * 0x1p-24 * want[i]) << "axis " << axis;
      }
    }
  }
}

TEST(Softmax, GradientIsFiniteWhereProbabilitiesVanish) {
  const Tensor x = from_values({200.0F, 0.0F, -200.0F}, {1, 3}).set_requires_grad(true);
  log_softmax(x).backward(ones({1, 3}));
  EXPECT_EQ(x.grad().to_vector<float>(), (Floats{-2, 1, 1}));
}

}  // namespace
}  // namespace mezzo
