// Tests group normalisation beyond the sweep.
#include "mezzo/ops/group_norm.h"

#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <hwy/highway.h>

#include "mezzo/autograd/engine.h"
#include "mezzo/core/random.h"
#include "mezzo/ops/arithmetic.h"
#include "mezzo/ops/cast.h"
#include "mezzo/ops/layer_norm.h"
#include "mezzo/ops/reduce.h"
#include "mezzo/ops/shape_ops.h"
#include "tests/unit/every_target.h"
#include "tests/unit/threads.h"

namespace mezzo {
namespace {

Tensor random_images(const Shape& shape, float mean, float deviation, std::uint64_t seed = 1) {
  const Tensor x = empty(shape);
  fill_normal({x.mutable_data<float>(), static_cast<std::size_t>(x.numel())}, {seed, 0}, mean,
              deviation);
  return shape.rank() == 4 ? to_format(x, Format::kChannelsLast) : x;
}

// The largest difference between a group_norm in f32 and one in f64 of the same values.
double group_norm_error(const Tensor& x, std::int64_t groups) {
  const auto got = group_norm(x, groups).to_vector<double>();
  const auto want = group_norm(x.astype(DType::kF64), groups).to_vector<double>();
  double error = 0;
  for (std::size_t i = 0; i < want.size(); ++i) error = std::max(error, std::abs(got[i] - want[i]));
  return error;
}

// Two samples of two groups; the channels of a group have different means.
TEST(GroupNorm, AKnownResult) {
  const Tensor x = from_values({1.0F, 3.0F, 5.0F, 7.0F, 0.0F, 0.0F, 2.0F, 2.0F,  //
                                9.0F, 9.0F, 9.0F, 9.0F, 0.0F, 4.0F, 4.0F, 0.0F},
                               {2, 4, 1, 2});
  const Tensor weight = from_values({1.0F, 2.0F, 3.0F, 4.0F}, {4});
  const Tensor bias = from_values({0.0F, 0.0F, 10.0F, 20.0F}, {4});
  const auto y = group_norm(x, 2, weight, bias, 0.0625).to_vector<double>();
  const double a = 1 / std::sqrt(5.0625);  // mean 4, variance 5
  const double b = 1 / std::sqrt(1.0625);  // mean 1, variance 1
  const double c = 1 / std::sqrt(4.0625);  // mean 2, variance 4
  const double want[] = {-3 * a, -a, 2 * a, 6 * a, 10 - 3 * b, 10 - 3 * b, 20 + 4 * b, 20 + 4 * b,
                         0,      0,  0,     0,     10 - 6 * c, 10 + 6 * c, 20 + 8 * c, 20 - 8 * c};
  for (std::size_t i = 0; i < y.size(); ++i) EXPECT_NEAR(y[i], want[i], 24 * 0x1p-22) << i;
}

TEST(GroupNorm, OneGroupIsLayerNormOfSamples) {
  const Tensor x = random_images({3, 6, 5, 7}, 1, 2);
  const Tensor got = group_norm(x, 1);
  const auto want = layer_norm(x, {6, 5, 7}).to_vector<double>();
  const auto y = got.to_vector<double>();
  EXPECT_TRUE(got.is_dense(Format::kChannelsLast));
  for (std::size_t i = 0; i < y.size(); ++i) ASSERT_NEAR(y[i], want[i], 32 * 0x1p-24) << i;
}

TEST(GroupNorm, ALargeMeanDoesNotSpoilTheVariance) {
  for (const std::int64_t size : {2, 9, 40}) {
    // The mean is rounded to f32: by 2^-24 * 1000 in units of the deviation.
    EXPECT_LE(group_norm_error(random_images({2, 12, size, size}, 1000, 1), 3), 4 * 1000 * 0x1p-24);
    EXPECT_LE(group_norm_error(random_images({2, 12, size, size}, 0, 1), 3), 32 * 0x1p-24);
  }
}

TEST(GroupNorm, LowPrecisionInputsHaveF32Statistics) {
  // 8000 values of at least 100: their sum is far beyond f16's range, and so are their squares.
  const Tensor x = random_images({2, 16, 32, 32}, 100, 1).astype(DType::kF16);
  const Tensor y = group_norm(x, 2);
  EXPECT_EQ(y.dtype(), DType::kF16);
  const auto want = group_norm(x.astype(DType::kF64), 2).to_vector<double>();
  const auto got = y.to_vector<double>();
  for (std::size_t i = 0; i < got.size(); ++i) {
    ASSERT_NEAR(got[i], want[i], 0x1p-11 * std::max(1.0, std::abs(want[i])));
  }
}

TEST(GroupNorm, NotANumberShowsInItsGroupOnly) {
  const Tensor x = random_images({2, 6, 3, 3}, 0, 1);
  const Tensor plain = contiguous(x);
  plain.mutable_data<float>()[(6 + 3) * 9 + 4] = NAN;  // sample 1, channel 3
  const auto y = group_norm(plain, 3).to_vector<double>();
  for (std::size_t i = 0; i < y.size(); ++i) {
    EXPECT_EQ(std::isnan(y[i]), i / 18 == 3 + 1) << i;
  }
}

std::vector<Tensor> group_norm_gradients(DType dtype, bool create_graph, const Shape& shape,
                                         std::int64_t groups) {
  const Shape channels{shape[1]};
  const auto leaf = [&](const Tensor& x) {
    return x.astype(dtype).detach().set_requires_grad(true);
  };
  const std::vector<Tensor> leaves{leaf(random_images(shape, 0.5F, 1)),
                                   leaf(random_images(channels, 1, 0.2F, 2)),
                                   leaf(random_images(channels, 0, 0.2F, 3))};
  const Tensor y = group_norm(leaves[0], groups, leaves[1], leaves[2]);
  const Tensor loss = sum(y * random_images(shape, 0, 1, 4).astype(dtype));
  return grad({&loss, 1}, leaves, {}, {.create_graph = create_graph});
}

// Sums over a group for x, and over all pixels for weight and bias, of terms of order 1. The bound
// is that of Higham and Mary, sqrt(n) * u * sum
// term
// ; for x, of means.
void expect_close_gradients(const std::vector<Tensor>& got, const std::vector<Tensor>& want,
                            std::int64_t pixels) {
  for (std::size_t k = 0; k < want.size(); ++k) {
    const auto a = got[k].to_vector<double>();
    const auto b = want[k].to_vector<double>();
    const double terms = k == 0 ? 64 : static_cast<double>(pixels);
    const double allowed = 0x1p-24 * std::sqrt(terms) * terms;
    for (std::size_t i = 0; i < b.size(); ++i) ASSERT_NEAR(a[i], b[i], allowed) << k;
  }
}

// Few samples share their rows among threads, many are divided among them.
TEST(GroupNorm, BothGradientPathsAgreeWithDouble) {
  for (const Shape& shape : {Shape{1, 12, 67, 41}, Shape{40, 12, 9, 17}, Shape{300, 12}}) {
    const auto want = group_norm_gradients(DType::kF64, false, shape, 3);
    for (const int threads : {1, 2}) {
      const test::Threads guard(threads);
      for (const bool create_graph : {false, true}) {
        const auto got = group_norm_gradients(DType::kF32, create_graph, shape, 3);
        expect_close_gradients(got, want, shape.numel() / shape[1]);
      }
    }
  }
}

// Vector lengths determine how pixels form rows, so odd sizes must be right for every length.
class GroupNormOnEveryTarget : public test::OnEveryTarget {};

TEST_P(GroupNormOnEveryTarget, AgreesWithDouble) {
  for (const std::int64_t channels : {1, 3, 17, 65, 1030}) {
    for (const std::int64_t groups : {std::int64_t{1}, channels}) {
      EXPECT_LE(group_norm_error(random_images({3, channels, 3, 7}, 1, 2), groups), 64 * 0x1p-24)
          << channels;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, GroupNormOnEveryTarget,
                         testing::ValuesIn(hwy::SupportedAndGeneratedTargets()), test::target_name);

}  // namespace
}  // namespace mezzo
