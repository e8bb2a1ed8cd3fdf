#include "mezzo/nn/init.h"

#include <algorithm>
#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace mezzo::nn::init {
namespace {

struct Moments {
  double mean = 0;
  double deviation = 0;
  double min = 0;
  double max = 0;
};

Moments moments_of(const Tensor& tensor) {
  const std::vector<double> values = tensor.to_vector<double>();
  const auto n = static_cast<double>(values.size());
  Moments moments;
  for (const double value : values) moments.mean += value / n;
  double variance = 0;
  for (const double value : values) variance += std::pow(value - moments.mean, 2) / n;
  moments.deviation = std::sqrt(variance);
  const auto [min, max] = std::ranges::minmax(values);
  moments.min = min;
  moments.max = max;
  return moments;
}

// The mean of n values has the deviation d / sqrt(n), and their deviation one of about d / sqrt(2
// n). Five deviations practically never occur by chance.
void expect_moments(const Tensor& tensor, double mean, double deviation) {
  const Moments moments = moments_of(tensor);
  const double band = 5 * deviation / std::sqrt(static_cast<double>(tensor.numel()));
  EXPECT_NEAR(moments.mean, mean, band);
  EXPECT_NEAR(moments.deviation, deviation, band);
}

class Init : public testing::Test {
 protected:
  void SetUp() override { manual_seed(7); }
  const Tensor weight = empty({64, 32, 3, 3});  // fan_in 288, fan_out 576
};

TEST_F(Init, Fans) {
  EXPECT_EQ(fans_of(weight).in, 288);
  EXPECT_EQ(fans_of(weight).out, 576);
  EXPECT_EQ(fans_of(empty({4, 2, 3, 5})).in, 30);
  EXPECT_EQ(fans_of(empty({4, 2, 3, 5})).out, 60);
  EXPECT_EQ(fans_of(empty({10, 84})).in, 84);
  EXPECT_EQ(fans_of(empty({10, 84})).out, 10);
  EXPECT_THROW(fans_of(empty({10})), ArgumentError);
}

TEST_F(Init, Gains) {
  EXPECT_EQ(gain(Nonlinearity::kLinear), 1);
  EXPECT_EQ(gain(Nonlinearity::kTanh), 5.0 / 3);
  EXPECT_EQ(gain(Nonlinearity::kRelu), std::sqrt(2.0));
  EXPECT_DOUBLE_EQ(gain(Nonlinearity::kLeakyRelu, std::sqrt(5.0)), std::sqrt(1.0 / 3));
}

TEST_F(Init, Constant) {
  constant(weight, 0.25);
  EXPECT_EQ(moments_of(weight).min, 0.25);
  EXPECT_EQ(moments_of(weight).max, 0.25);
}

TEST_F(Init, Uniform) {
  uniform(weight, -1, 3);
  expect_moments(weight, 1, 4 / std::sqrt(12.0));
  EXPECT_GE(moments_of(weight).min, -1);
  EXPECT_LT(moments_of(weight).max, 3);
  EXPECT_THROW(uniform(weight, 1, 0), ArgumentError);
}

TEST_F(Init, Normal) {
  normal(weight, 2, 0.5);
  expect_moments(weight, 2, 0.5);
  EXPECT_GT(moments_of(weight).max, 2 + 3 * 0.5);
  EXPECT_THROW(normal(weight, 0, -1), ArgumentError);
}

TEST_F(Init, TruncatedNormal) {
  truncated_normal(weight, 1, 0.5);
  // The variance of a normal distribution truncated at two deviations:
  // 1 - 2 * 2 * pdf(2) / (cdf(2) - cdf(-2)).
  const double pdf = std::exp(-2.0) / std::sqrt(2 * M_PI);
  const double inside = std::erf(2 / std::sqrt(2.0));
  expect_moments(weight, 1, 0.5 * std::sqrt(1 - 4 * pdf / inside));
  EXPECT_GE(moments_of(weight).min, 0);
  EXPECT_LE(moments_of(weight).max, 2);
  EXPECT_NEAR(moments_of(weight).max, 2, 0.01) << "the tails are drawn again, not clamped away";
}

TEST_F(Init, Xavier) {
  const double deviation = std::sqrt(2.0 / (288 + 576));
  xavier_uniform(weight);
  expect_moments(weight, 0, deviation);
  EXPECT_LE(moments_of(weight).max, std::sqrt(3.0) * deviation * (1 + 1e-6));
  xavier_normal(weight, 2);
  expect_moments(weight, 0, 2 * deviation);
}

TEST_F(Init, AViewGetsTheNumbersAndWhatLiesBesideItNone) {
  const Tensor whole = zeros({5, 7});
  Generator once(3);
  uniform(alias(whole, {5, 3}, {7, 1}, 2), 1, 2, once);
  const Tensor expected = zeros({5, 7});
  const Tensor dense = empty({5, 3});
  Generator again(3);
  uniform(dense, 1, 2, again);
  copy_elements(dense, alias(expected, {5, 3}, {7, 1}, 2));
  EXPECT_EQ(whole.to_vector<float>(), expected.to_vector<float>());
}

TEST_F(Init, Kaiming) {
  kaiming_normal(weight, {.mode = FanMode::kFanOut, .nonlinearity = Nonlinearity::kRelu});
  expect_moments(weight, 0, std::sqrt(2.0 / 576));
  kaiming_uniform(weight);
  expect_moments(weight, 0, std::sqrt(2.0 / 288));
}

TEST_F(Init, LayerDefaultIsPyTorchs) {
  const Tensor bias = empty({1000});
  default_weight(weight);
  default_bias(bias, weight);
  const double bound = 1 / std::sqrt(288.0);
  expect_moments(weight, 0, bound / std::sqrt(3.0));
  expect_moments(bias, 0, bound / std::sqrt(3.0));
  EXPECT_LE(moments_of(weight).max, bound * (1 + 1e-6));
}

TEST_F(Init, TheSeedFixesTheValuesWhateverDtypeAndFormat) {
  truncated_normal(weight, 0, 1);
  const std::vector<float> first = weight.to_vector<float>();
  manual_seed(7);
  const Tensor other = empty(weight.shape(), DType::kF64, Format::kChannelsLast);
  truncated_normal(other, 0, 1);
  EXPECT_EQ(other.to_vector<float>(), first);
  truncated_normal(other, 0, 1);
  EXPECT_NE(other.to_vector<float>(), first);
}

TEST_F(Init, OnlyFloatingTensors) {
  EXPECT_THROW(normal(zeros({2}, DType::kI64), 0, 1), ArgumentError);
  EXPECT_THROW(constant(Tensor(), 0), ArgumentError);
  EXPECT_NO_THROW(kaiming_normal(empty({0, 3})));
}

}  // namespace
}  // namespace mezzo::nn::init
