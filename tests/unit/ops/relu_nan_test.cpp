// Tests that the gradient of ReLU passes NaN, as in PyTorch, in every operation that includes a
// ReLU.
#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mezzo/autograd/engine.h"
#include "mezzo/core/random.h"
#include "mezzo/ops/arithmetic.h"
#include "mezzo/ops/batch_norm.h"
#include "mezzo/ops/reduce.h"
#include "mezzo/ops/relu.h"
#include "tests/unit/every_target.h"

namespace mezzo {
namespace {

using Floats = std::vector<float>;
using testing::ElementsAre;

constexpr DType kReluDTypes[] = {DType::kF32, DType::kBf16, DType::kF16, DType::kF64};

class ReluAtNan : public test::OnEveryTarget {};
INSTANTIATE_TEST_SUITE_P(Targets, ReluAtNan, testing::ValuesIn(hwy::SupportedAndGeneratedTargets()),
                         test::target_name);

// Long enough for whole vectors and a remainder; every seventh element is NaN.
Tensor with_nans(std::int64_t rows, std::int64_t columns, std::uint64_t seed) {
  Generator generator(seed);
  const Tensor x = randn({rows, columns}, generator);
  for (std::int64_t i = 0; i < x.numel(); i += 7) x.mutable_data<float>()[i] = NAN;
  return x;
}

TEST_P(ReluAtNan, TheGradientPasses) {
  for (const DType dtype : kReluDTypes) {
    const Tensor x = with_nans(3, 45, 1).astype(dtype).set_requires_grad(true);
    sum(relu(x) * 3).backward();
    const Floats values = x.to_vector<float>();
    const Floats found = x.grad().to_vector<float>();
    for (std::size_t i = 0; i < values.size(); ++i) {
      EXPECT_EQ(found[i], values[i] <= 0 ? 0 : 3)
          << name_of(dtype) << ' ' << i << ": " << values[i];
    }
  }
}

TEST_P(ReluAtNan, TheSecondGradientPassesToo) {
  const Tensor x = from_values<float>({-1, 0, NAN, 2}, {4}).set_requires_grad(true);
  const Tensor seed = ones({4}).set_requires_grad(true);
  const Tensor outputs[] = {relu(x)};
  const Tensor seeds[] = {seed};
  const Tensor first = grad(outputs, std::span(&x, 1), seeds, {.create_graph = true})[0];
  sum(first * 5).backward();
  EXPECT_THAT(seed.grad().to_vector<float>(), ElementsAre(0, 0, 5, 5));
}

struct NormGradients {
  Floats x, weight, bias, residual;
};

// With given statistics, so that a NaN does not spread.
NormGradients of_norm(bool fused, bool has_residual, DType dtype) {
  const Tensor x = with_nans(9, 37, 2).astype(dtype).set_requires_grad(true);
  const Tensor residual = with_nans(9, 37, 3).astype(dtype).set_requires_grad(has_residual);
  const DType wide = dtype == DType::kF64 ? DType::kF64 : DType::kF32;
  const Tensor weight = ones({37}, wide).set_requires_grad(true);
  const Tensor bias = zeros({37}, wide).set_requires_grad(true);
  const BatchNormOptions options{.training = false,
                                 .relu = fused,
                                 .residual = has_residual && fused ? residual : Tensor(),
                                 .running_mean = zeros({37}, wide),
                                 .running_var = ones({37}, wide)};
  Tensor y = batch_norm(x, weight, bias, options).y;
  if (!fused) y = relu(has_residual ? y + residual : y);
  sum(y).backward();
  return {x.grad().to_vector<float>(), weight.grad().to_vector<float>(),
          bias.grad().to_vector<float>(),
          has_residual ? residual.grad().to_vector<float>() : Floats()};
}

// Compares bits, but treats all NaNs alike.
void expect_same(const Floats& found, const Floats& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    EXPECT_TRUE(found[i] == expected[i] || (std::isnan(found[i]) && std::isnan(expected[i])))
        << i << ": " << found[i] << ", not " << expected[i];
  }
}

// The bias gradients count where the ReLU is open.
TEST_P(ReluAtNan, NormsWithAReluAreNoDifferent) {
  for (const DType dtype : kReluDTypes) {
    for (const bool has_residual : {false, true}) {
      SCOPED_TRACE(concat(dtype, has_residual ? " with a residual" : ""));
      const NormGradients fused = of_norm(true, has_residual, dtype);
      const NormGradients plain = of_norm(false, has_residual, dtype);
      expect_same(fused.bias, plain.bias);
      expect_same(fused.residual, plain.residual);
      expect_same(fused.x, plain.x);
      expect_same(fused.weight, plain.weight);
    }
  }
}

}  // namespace
}  // namespace mezzo
