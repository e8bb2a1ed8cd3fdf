// Tests RMS normalisation beyond the sweep.
#include "mezzo/ops/rms_norm.h"

#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <hwy/highway.h>

#include "mezzo/autograd/engine.h"
#include "mezzo/core/random.h"
#include "mezzo/ops/arithmetic.h"
#include "mezzo/ops/reduce.h"
#include "tests/unit/every_target.h"
#include "tests/unit/threads.h"

namespace mezzo {
namespace {

Tensor random_rows(const Shape& shape, float mean, std::uint64_t seed = 1) {
  Tensor x = empty(shape);
  fill_normal({x.mutable_data<float>(), static_cast<std::size_t>(x.numel())}, {seed, 0}, mean, 1);
  return x;
}

// The largest difference between a result in f32 and one in f64 of the same values.
double largest_error(const Tensor& x, const Shape& shape) {
  const auto got = rms_norm(x, shape, {}, 1e-6).to_vector<double>();
  const auto want = rms_norm(x.astype(DType::kF64), shape, {}, 1e-6).to_vector<double>();
  double error = 0;
  for (std::size_t i = 0; i < want.size(); ++i) error = std::max(error, std::abs(got[i] - want[i]));
  return error;
}

TEST(RmsNorm, EpsStandsInsideTheRoot) {
  const Tensor y = rms_norm(from_values({3.0F, 4.0F}, {1, 2}), {2}, {}, 3.5);
  EXPECT_THAT(y.to_vector<float>(), testing::ElementsAre(0.75F, 1.0F));  // sqrt(12.5 + 3.5) = 4
}

TEST(RmsNorm, TheDefaultEpsIsThatOfTheStatistics) {
  for (const DType dtype : {DType::kF32, DType::kBf16, DType::kF16}) {
    const Tensor x = full({1, 4}, 0x1p-12, dtype);
    const double want = 0x1p-12 / std::sqrt(0x1p-24 + 0x1p-23);
    EXPECT_NEAR(rms_norm(x, {4}).to_vector<double>()[0], want, epsilon_of(dtype)) << name_of(dtype);
  }
  const Tensor x = full({1, 4}, 1e-8, DType::kF64);
  EXPECT_NEAR(rms_norm(x, {4}).to_vector<double>()[0], 1e-8 / std::sqrt(1e-16 + 0x1p-52), 1e-15);
}

TEST(RmsNorm, SquaresThatF16CannotHoldAreSummed) {
  const Tensor x = random_rows({4, 1000}, 1000).astype(DType::kF16);
  const Tensor y = rms_norm(x, {1000});
  EXPECT_EQ(y.dtype(), DType::kF16);
  const auto want = rms_norm(x.astype(DType::kF64), {1000}).to_vector<double>();
  const auto got = y.to_vector<double>();
  for (std::size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], want[i], 0x1p-10) << i;
}

TEST(RmsNorm, NotANumberShowsInItsRowOnly) {
  for (const float bad : {NAN, INFINITY, 1e30F}) {  // the square of 1e30 is infinite in f32
    const Tensor x = random_rows({3, 5}, 0);
    x.mutable_data<float>()[7] = bad;
    const auto y = rms_norm(x, {5}).to_vector<double>();
    for (std::size_t i = 0; i < y.size(); ++i) EXPECT_EQ(std::isnan(y[i]), i / 5 == 1) << i;
  }
}

TEST(RmsNorm, ZerosStayZeros) {
  const Tensor y = rms_norm(zeros({2, 3}), {3});
  EXPECT_THAT(y.to_vector<float>(), testing::Each(0));
}

TEST(RmsNorm, NamesTheShapesThatDoNotFit) {
  try {
    rms_norm(zeros({2, 3, 4}), {3, 5});
    FAIL();
  } catch (const ArgumentError& error) {
    EXPECT_STREQ(error.what(),
                 "[rms_norm] x of shape [2, 3, 4] does not end in the axes [3, 5]. Give the last "
                 "axes of x");
  }
}

struct Gradients {
  Tensor x;
  Tensor weight;
};

Gradients gradients(DType dtype, bool create_graph, const Shape& shape) {
  const auto leaf = [&](const Tensor& x) {
    return x.astype(dtype).detach().set_requires_grad(true);
  };
  const std::vector<Tensor> leaves{leaf(random_rows(shape, 0.5F)),
                                   leaf(random_rows({shape.back()}, 1, 2))};
  const Tensor y = rms_norm(leaves[0], {shape.back()}, leaves[1], 1e-6);
  const Tensor loss = sum(y * random_rows(shape, 0, 4).astype(dtype));
  std::vector<Tensor> result = grad({&loss, 1}, leaves, {}, {.create_graph = create_graph});
  return {result[0], result[1]};
}

void expect_near(const Tensor& got, const Tensor& want, double terms) {
  const auto a = got.to_vector<double>();
  const auto b = want.to_vector<double>();
  // The bound of Higham and Mary, sqrt(n) * u * sum |term|, for terms of order 1.
  const double allowed = 0x1p-24 * std::sqrt(terms) * terms;
  for (std::size_t i = 0; i < b.size(); ++i) ASSERT_NEAR(a[i], b[i], allowed) << i;
}

TEST(RmsNorm, BothGradientPathsAgreeWithDouble) {
  const Shape shape{300, 37};
  const Gradients want = gradients(DType::kF64, false, shape);
  for (const bool create_graph : {false, true}) {
    const Gradients got = gradients(DType::kF32, create_graph, shape);
    expect_near(got.x, want.x, 37);
    expect_near(got.weight, want.weight, 300);
  }
}

TEST(RmsNorm, BitsDoNotDependOnTheNumberOfThreads) {
  const Shape shape{700, 129};
  std::vector<float> first;
  for (const int threads : {1, 2, 3, 5}) {
    const test::Threads guard(threads);
    const Gradients got = gradients(DType::kF32, false, shape);
    std::vector<float> all = got.x.to_vector<float>();
    for (const float value : got.weight.to_vector<float>()) all.push_back(value);
    if (first.empty()) first = all;
    EXPECT_EQ(all, first) << threads;
  }
}

class RmsNormOnEveryTarget : public test::OnEveryTarget {};

TEST_P(RmsNormOnEveryTarget, AgreesWithDouble) {
  for (const std::int64_t size : {1, 3, 17, 65, 1030}) {
    EXPECT_LE(largest_error(random_rows({9, size}, 1), {size}), 32 * 0x1p-24) << size;
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, RmsNormOnEveryTarget,
                         testing::ValuesIn(hwy::SupportedAndGeneratedTargets()), test::target_name);

}  // namespace
}  // namespace mezzo
