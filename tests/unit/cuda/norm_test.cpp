// Tests channel statistics that a careless sum would lose: large means, outlying pixels,
// infinities.
#include <cmath>
#include <vector>

#include <gtest/gtest.h>

#include "mezzo/core/random.h"
#include "mezzo/ops/batch_norm.h"
#include "mezzo/ops/dispatcher/call.h"
#include "mezzo/ops/dispatcher/registry.h"
#include "mezzo/ops/group_norm.h"
#include "mezzo/ops/group_norm_attrs.h"
#include "mezzo/ops/layer_norm.h"
#include "tests/unit/cuda/card.h"
#include "tests/unit/special_values.h"

namespace mezzo {
namespace {

class CudaNorms : public OnCard<> {};

// The statistics of every channel of every sample.
struct Statistics {
  std::vector<double> mean, var;
};

// Computed in double, in two passes. x: [n, c, h, w]
Statistics statistics_of(const Tensor& x) {
  const std::vector<double> values = x.to_vector<double>();
  const auto pixels = static_cast<std::size_t>(x.size(2) * x.size(3));
  Statistics found;
  for (std::size_t begin = 0; begin < values.size(); begin += pixels) {
    double mean = 0;
    double squares = 0;
    for (std::size_t i = begin; i < begin + pixels; ++i) mean += values[i];
    mean /= static_cast<double>(pixels);
    for (std::size_t i = begin; i < begin + pixels; ++i) squares += std::pow(values[i] - mean, 2);
    found.mean.push_back(mean);
    found.var.push_back(squares / static_cast<double>(pixels));
  }
  return found;
}

// The statistics of one sample.
Statistics of_batch_norm(const Tensor& x, Device device) {
  const BatchNormResult result = batch_norm(x.to(device), {}, {});
  return {result.mean.to_vector<double>(), result.var.to_vector<double>()};
}

// The statistics with a group for each channel.
Statistics of_group_norm(const Tensor& x, Device device) {
  const Tensor there = x.to(device);
  const Tensor absent;
  const Outputs outputs = call(*find_op("group_norm"), {&there, &absent, &absent},
                               GroupNormAttrs{.groups = x.size(1), .eps = 0});
  Statistics found{outputs[1].to_vector<double>(), outputs[2].to_vector<double>()};
  for (double& rstd : found.var) rstd = 1 / (rstd * rstd);
  return found;
}

// Up to 256 values are added up one after the other. Their rounding errors grow as the square root
// of that number, and count 17 times as much if the first value is as far off as possible
// (kernels/cuda/moments.cuh). A large mean is rounded in each of up to ten levels of sums. The
// error of a mean adds its square to the variance.
void expect_near(const Statistics& found, const Statistics& wanted) {
  constexpr double kUnit = 0x1p-24;  // half a unit in the last place of f32
  constexpr double kSum = kUnit * 17 * 16;
  constexpr double kLevels = 10;
  ASSERT_EQ(found.mean.size(), wanted.mean.size());
  for (std::size_t i = 0; i < wanted.mean.size(); ++i) {
    const double rounding = kLevels * kUnit * std::abs(wanted.mean[i]);
    const double deviation = std::sqrt(wanted.var[i]);
    EXPECT_NEAR(found.mean[i], wanted.mean[i], rounding + kSum * deviation) << i;
    EXPECT_NEAR(found.var[i], wanted.var[i], kSum * wanted.var[i] + rounding * rounding) << i;
  }
}

Tensor normal(const Shape& shape, float mean, float deviation) {
  const Tensor x = empty(shape, DType::kF32);
  fill_normal({x.mutable_data<float>(), static_cast<std::size_t>(x.numel())}, {5, 0}, mean,
              deviation);
  return x;
}

// Threads add up some hundred pixels each: in batch norm on a device with two multiprocessors, in
// group norm on any.
const Shape kOneSample{1, 31, 128, 128};
const Shape kManySamples{25, 31, 40, 40};

TEST_F(CudaNorms, ALargeMeanLeavesTheVariance) {
  for (const Tensor& x : {normal(kOneSample, 1000, 1), normal(kOneSample, -1000, 0.01F),
                          normal({1, 32, 128, 128}, 1000, 1).astype(DType::kF16),
                          normal({1, 32, 128, 128}, 100, 1).astype(DType::kBf16)}) {
    expect_near(of_batch_norm(x, kCard), statistics_of(x));
  }
  const Tensor x = normal(kManySamples, 1000, 1);
  expect_near(of_group_norm(x, kCard), statistics_of(x));
}

TEST_F(CudaNorms, AFirstPixelFarOffDoesNotSpoilTheVariance) {
  const auto set_first_pixels = [](const Tensor& x, float value) {
    const std::int64_t pixels = x.size(2) * x.size(3);
    for (std::int64_t i = 0; i < x.numel(); i += pixels) x.mutable_data<float>()[i] = value;
  };
  for (const float far : {3000.0F, -65504.0F}) {
    const Tensor one = normal(kOneSample, 0, 1);
    set_first_pixels(one, far);
    expect_near(of_batch_norm(one, kCard), statistics_of(one));
    const Tensor many = normal(kManySamples, 0, 1);
    set_first_pixels(many, far);
    expect_near(of_group_norm(many, kCard), statistics_of(many));
  }
}

std::vector<bool> are_finite(const Statistics& statistics) {
  std::vector<bool> finite;
  for (const auto* of : {&statistics.mean, &statistics.var}) {
    for (const double number : *of) finite.push_back(std::isfinite(number));
  }
  return finite;
}

// In the first pixel that a thread reads, among the first few, and among the others.
TEST_F(CudaNorms, WhatIsNotFiniteShowsInItsChannelOnly) {
  constexpr std::int64_t kPixels = std::int64_t{40} * 40;
  for (const float bad : {kInf, -kInf, kNan}) {
    for (const std::int64_t pixel : {std::int64_t{0}, std::int64_t{8}, kPixels - 1}) {
      const Tensor x = normal({1, 31, 40, 40}, 1, 1);
      x.mutable_data<float>()[7 * kPixels + pixel] = bad;
      std::vector<bool> expected(62, true);
      expected[7] = expected[31 + 7] = false;
      EXPECT_EQ(are_finite(of_batch_norm(x, kCard)), expected) << bad << ' ' << pixel;
      EXPECT_EQ(are_finite(of_group_norm(x, kCard)), expected) << bad << ' ' << pixel;
    }
  }
}

// A channel that f32 cannot normalise is NaN, not the bias, as on the CPU.
TEST_F(CudaNorms, AVarianceBeyondF32IsInfiniteAndTheResultNan) {
  const Tensor x = empty({1, 31, 40, 40}, DType::kF32);
  for (std::int64_t i = 0; i < x.numel(); ++i) {
    x.mutable_data<float>()[i] = i / 8 % 2 == 0 ? 1e20F : -1e20F;
  }
  for (const double var : of_batch_norm(x, kCard).var) EXPECT_EQ(var, kInf);
  for (const double var : of_group_norm(x, kCard).var) EXPECT_TRUE(std::isnan(var));
  const Tensor there = x.to(kCard);
  for (const Tensor& y :
       {batch_norm(there, {}, {}).y, group_norm(there, 31), layer_norm(there, {31, 40, 40})}) {
    for (const float value : y.to_vector<float>()) ASSERT_TRUE(std::isnan(value));
  }
}

}  // namespace
}  // namespace mezzo
