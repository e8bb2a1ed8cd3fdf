// Tests layer normalisation beyond the sweep, and both normalisations on every instruction set.
#include "mezzo/ops/layer_norm.h"

#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <hwy/highway.h>

#include "mezzo/autograd/engine.h"
#include "mezzo/core/random.h"
#include "mezzo/ops/arithmetic.h"
#include "mezzo/ops/batch_norm.h"
#include "mezzo/ops/cast.h"
#include "mezzo/ops/reduce.h"
#include "tests/unit/every_target.h"
#include "tests/unit/threads.h"

namespace mezzo {
namespace {

Tensor random_rows(const Shape& shape, float mean, float deviation, std::uint64_t seed = 1) {
  Tensor x = empty(shape);
  fill_normal({x.mutable_data<float>(), static_cast<std::size_t>(x.numel())}, {seed, 0}, mean,
              deviation);
  return x;
}

// The largest difference between a layer_norm in f32 and one in f64 of the same values.
double largest_error(const Tensor& x, const Shape& shape) {
  const auto got = layer_norm(x, shape).to_vector<double>();
  const auto want = layer_norm(x.astype(DType::kF64), shape).to_vector<double>();
  double error = 0;
  for (std::size_t i = 0; i < want.size(); ++i) error = std::max(error, std::abs(got[i] - want[i]));
  return error;
}

TEST(LayerNorm, ALargeMeanDoesNotSpoilTheVariance) {
  // The mean is rounded to f32: by 2^-24 * 1000 in units of the deviation.
  for (const std::int64_t size : {7, 64, 513, 20000}) {
    EXPECT_LE(largest_error(random_rows({3, size}, 1000, 1), {size}), 2 * 1000 * 0x1p-24) << size;
    EXPECT_LE(largest_error(random_rows({3, size}, 0, 1), {size}), 32 * 0x1p-24) << size;
  }
}

TEST(LayerNorm, LowPrecisionInputsHaveF32Statistics) {
  // 1000 values of at least 100: their sum is far beyond f16's range, and so are their squares.
  const Tensor x = random_rows({4, 1000}, 100, 1).astype(DType::kF16);
  const Tensor y = layer_norm(x, {1000});
  EXPECT_EQ(y.dtype(), DType::kF16);
  const auto want = layer_norm(x.astype(DType::kF64), {1000}).to_vector<double>();
  const auto got = y.to_vector<double>();
  for (std::size_t i = 0; i < got.size(); ++i) {
    EXPECT_NEAR(got[i], want[i], 0x1p-11 * std::max(1.0, std::abs(want[i])));
  }
}

TEST(LayerNorm, NotANumberShowsInItsRowOnly) {
  const Tensor x = random_rows({3, 5}, 0, 1);
  x.mutable_data<float>()[7] = NAN;
  const auto y = layer_norm(x, {5}).to_vector<double>();
  for (std::size_t i = 0; i < y.size(); ++i) EXPECT_EQ(std::isnan(y[i]), i / 5 == 1) << i;
}

TEST(LayerNorm, NamesTheShapesThatDoNotFit) {
  try {
    layer_norm(zeros({2, 3, 4}), {3, 5});
    FAIL();
  } catch (const ArgumentError& error) {
    EXPECT_STREQ(error.what(),
                 "[layer_norm] x of shape [2, 3, 4] does not end in the axes [3, 5]. Give the last "
                 "axes of x");
  }
}

struct Gradients {
  std::vector<Tensor> tensors;
  double loss = 0;
};

Gradients layer_norm_gradients(DType dtype, bool create_graph, const Shape& shape) {
  const Shape last{shape.back()};
  const auto leaf = [&](const Tensor& x) {
    return x.astype(dtype).detach().set_requires_grad(true);
  };
  const std::vector<Tensor> leaves{leaf(random_rows(shape, 0.5F, 1)),
                                   leaf(random_rows(last, 1, 0.2F, 2)),
                                   leaf(random_rows(last, 0, 0.2F, 3))};
  const Tensor y = layer_norm(leaves[0], last, leaves[1], leaves[2]);
  const Tensor loss = sum(y * random_rows(shape, 0, 1, 4).astype(dtype));
  return {grad({&loss, 1}, leaves, {}, {.create_graph = create_graph}), loss.item()};
}

TEST(LayerNorm, BothGradientPathsAgreeWithDouble) {
  const Shape shape{300, 37};
  const Gradients want = layer_norm_gradients(DType::kF64, false, shape);
  for (const int threads : {1, 2}) {
    const test::Threads guard(threads);
    for (const bool create_graph : {false, true}) {
      const Gradients got = layer_norm_gradients(DType::kF32, create_graph, shape);
      for (std::size_t k = 0; k < 3; ++k) {
        const auto a = got.tensors[k].to_vector<double>();
        const auto b = want.tensors[k].to_vector<double>();
        // Sums of 37 terms for x and of 300 for weight and bias, of order 1. The bound is that of
        // Higham and Mary, sqrt(n) * u * sum
        // term
        // .
        const double terms = k == 0 ? 37 : 300;
        const double allowed = 0x1p-24 * std::sqrt(terms) * terms;
        for (std::size_t i = 0; i < b.size(); ++i) ASSERT_NEAR(a[i], b[i], allowed) << k;
      }
    }
  }
}

// Normalisations choose their paths by vector length, so odd sizes must be right for every length.
class EveryTarget : public test::OnEveryTarget {};

TEST_P(EveryTarget, BatchNormAgreesWithDouble) {
  for (const std::int64_t channels : {1, 3, 17, 65, 1030}) {
    const Tensor x = random_rows({5, channels, 3, 7}, 1, 2);
    const Tensor residual = random_rows({5, channels, 3, 7}, 0, 1, 2);
    const auto run = [&](DType dtype) {
      const Tensor leaf = x.astype(dtype).detach().set_requires_grad(true);
      const Tensor y =
          batch_norm(leaf, {}, {}, {.relu = true, .residual = residual.astype(dtype)}).y;
      const Tensor loss = sum(y * y);
      return std::pair(y.to_vector<double>(), grad({&loss, 1}, {&leaf, 1})[0].to_vector<double>());
    };
    const auto [y, grad_x] = run(DType::kF32);
    const auto [want_y, want_grad_x] = run(DType::kF64);
    for (std::size_t i = 0; i < y.size(); ++i) {
      ASSERT_NEAR(y[i], want_y[i], 64 * 0x1p-24) << channels << " channels, " << i;
      ASSERT_NEAR(grad_x[i], want_grad_x[i], 256 * 0x1p-24) << channels << " channels, " << i;
    }
  }
}

TEST_P(EveryTarget, LayerNormAgreesWithDouble) {
  for (const std::int64_t size : {1, 3, 17, 65, 1030}) {
    EXPECT_LE(largest_error(random_rows({9, size}, 1, 2), {size}), 32 * 0x1p-24) << size;
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, EveryTarget,
                         testing::ValuesIn(hwy::SupportedAndGeneratedTargets()), test::target_name);

}  // namespace
}  // namespace mezzo
