// Tests matrix products that are large enough for the device's library to add them up in parts.
#include <cstdint>
#include <vector>

#include <gtest/gtest.h>

#include "mezzo/ops/conv2d_attrs.h"
#include "mezzo/ops/dispatcher/call.h"
#include "mezzo/ops/dispatcher/registry.h"
#include "mezzo/ops/matmul.h"
#include "tests/unit/cuda/card.h"

namespace mezzo {
namespace {

class CudaProducts : public OnCard<testing::TestWithParam<DType>> {};

// Integers from -2 to 2: sums of up to 2^22 of their products are exact in f32, in any order.
Tensor whole_numbers(const Shape& shape, DType dtype, std::uint64_t seed) {
  std::vector<float> values(static_cast<std::size_t>(shape.numel()));
  for (float& value : values) {
    seed = seed * 6364136223846793005U + 1442695040888963407U;  // Knuth's MMIX
    value = static_cast<float>((seed >> 33U) % 5) - 2;
  }
  return from_values(values, shape).astype(dtype);
}

std::vector<float> numbers_of(const Tensor& tensor) { return tensor.to_vector<float>(); }

TEST_P(CudaProducts, AreThoseOfTheCpu) {
  const Tensor a = whole_numbers({104, 720}, GetParam(), 1);
  const Tensor b = whole_numbers({720, 672}, GetParam(), 2);
  const std::vector<float> expected = numbers_of(matmul(a, b));
  EXPECT_EQ(numbers_of(matmul(a.to(kCard), b.to(kCard))), expected);
}

TEST_P(CudaProducts, HaveTheirBiasAdded) {
  const Tensor x = whole_numbers({104, 720}, GetParam(), 3);
  const Tensor weight = whole_numbers({672, 720}, GetParam(), 4);
  const Tensor bias = whole_numbers({672}, GetParam(), 5);
  const std::vector<float> expected = numbers_of(linear(x, weight, bias));
  EXPECT_EQ(numbers_of(linear(x.to(kCard), weight.to(kCard), bias.to(kCard))), expected);
}

TEST_P(CudaProducts, OfAllPixelsAreGradientsByWeights) {
  const Tensor x = whole_numbers({3, 192, 13, 17}, GetParam(), 6);
  const Tensor grad = whole_numbers({3, 400, 13, 17}, GetParam(), 7);
  const OpDef& op = *find_op("conv2d_grad_weight");
  const Conv2dGradAttrs attrs{.size = {1, 1}, .f32_result = true};
  const std::vector<float> expected = numbers_of(call_one(op, {&grad, &x}, attrs));
  const Tensor x_card = x.to(kCard);
  const Tensor grad_card = grad.to(kCard);
  EXPECT_EQ(numbers_of(call_one(op, {&grad_card, &x_card}, attrs)), expected);
}

INSTANTIATE_TEST_SUITE_P(Dtypes, CudaProducts,
                         testing::Values(DType::kF32, DType::kBf16, DType::kF16),
                         [](const auto& of) { return name_of(of.param); });

}  // namespace
}  // namespace mezzo
