// Tests sums of gradients at 16-bit leaves, which are f32.
#include <cstdint>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "mezzo/autograd/engine.h"
#include "mezzo/core/allocator.h"
#include "mezzo/core/random.h"
#include "mezzo/ops/arithmetic.h"
#include "mezzo/ops/cast.h"
#include "mezzo/ops/dispatcher/grad_mode.h"
#include "mezzo/ops/indexing.h"
#include "mezzo/ops/reduce.h"

namespace mezzo {
namespace {

using Floats = std::vector<float>;

constexpr int kMany = 1000;

class LeafSums : public testing::TestWithParam<DType> {
 protected:
  Tensor leaf(const Shape& shape) const { return ones(shape, GetParam()).set_requires_grad(true); }
};

// In bf16 the sum would stop at 256, in f16 at 2048, where an addend is half of its last bit.
TEST_P(LeafSums, OverManyPassesAreThoseOfF32) {
  constexpr int kPasses = 5 * kMany;
  const Tensor w = leaf({3});
  for (int i = 0; i < kPasses; ++i) sum(w).backward();
  EXPECT_EQ(w.grad().to_vector<float>(), Floats(3, kPasses));
}

TEST_P(LeafSums, OverManyUsesInOnePassAreThoseOfF32) {
  const Tensor w = leaf({2});
  std::vector<Tensor> uses;
  for (int i = 0; i < 3 * kMany; ++i) uses.push_back(sum(w));
  backward(uses);
  EXPECT_EQ(w.grad().to_vector<float>(), Floats(2, 3 * kMany));
}

// A sum adds the gradients that each pass gives alone, in order.
TEST_P(LeafSums, AreOfTheGradientsOfEachPass) {
  Generator generator(3);
  const Tensor w = leaf({40});
  std::vector<float> expected(40, 0);
  for (int pass = 0; pass < 20; ++pass) {
    const Tensor factor = (randn({40}, generator) * 0.37).astype(GetParam());
    const Tensor alone = leaf({40});
    sum(alone * factor).backward();
    sum(w * factor).backward();
    const Floats one = alone.grad().to_vector<float>();
    for (std::size_t i = 0; i < one.size(); ++i) expected[i] += one[i];
  }
  EXPECT_EQ(w.grad().to_vector<float>(), expected);
}

TEST_P(LeafSums, AreF32FromTheSecondGradientOn) {
  const Tensor w = leaf({2});
  sum(w).backward();
  EXPECT_EQ(w.grad().dtype(), GetParam());
  sum(w).backward();
  EXPECT_EQ(w.grad().dtype(), DType::kF32);
  w.clear_grad();
  sum(w).backward();
  EXPECT_EQ(w.grad().dtype(), GetParam());
}

// A sum that someone holds is not overwritten, in 16 bits or in f32.
TEST_P(LeafSums, LeaveHandlesOfEarlierOnesAlone) {
  const Tensor w = leaf({2});
  std::vector<Tensor> held;
  for (int pass = 1; pass <= 4; ++pass) {
    sum(w).backward();
    held.push_back(w.grad());
  }
  for (int pass = 1; pass <= 4; ++pass) {
    EXPECT_EQ(held[static_cast<std::size_t>(pass - 1)].to_vector<float>(), Floats(2, pass));
  }
}

// grad() returns final gradients in their usual dtype, rounded once.
TEST_P(LeafSums, OfGradAreRoundedOnce) {
  const Tensor w = leaf({2});
  const auto sums = [&](bool f32_sums) {
    std::vector<Tensor> uses;
    for (int i = 0; i < 3 * kMany; ++i) uses.push_back(sum(w));
    const std::vector<Tensor> inputs{w, w};
    return grad(uses, inputs, {}, {.f32_sums = f32_sums});
  };
  const float rounded = full({1}, 3 * kMany).astype(GetParam()).to_vector<float>()[0];
  for (const Tensor& gradient : sums(false)) {
    EXPECT_EQ(gradient.dtype(), GetParam());
    EXPECT_EQ(gradient.to_vector<float>(), Floats(2, rounded));
  }
  for (const Tensor& gradient : sums(true)) {
    EXPECT_EQ(gradient.dtype(), DType::kF32);
    EXPECT_EQ(gradient.to_vector<float>(), Floats(2, 3 * kMany));
  }
  EXPECT_FALSE(w.grad().defined());
}

// d(w^2 + w^2)/dw = 4 w, whose derivative is 4.
TEST_P(LeafSums, CanBeDifferentiatedAgain) {
  const Tensor w = leaf({2});
  const std::vector<Tensor> losses{sum(w * w), sum(w * w)};
  const std::vector<Tensor> first = grad(losses, {&w, 1}, {}, {.create_graph = true});
  const Tensor total = sum(first[0]);
  EXPECT_EQ(grad({&total, 1}, {&w, 1})[0].to_vector<float>(), Floats(2, 4));
  backward(losses, {}, {.create_graph = true});
  const Tensor again = sum(w.grad());
  EXPECT_EQ(grad({&again, 1}, {&w, 1})[0].to_vector<float>(), Floats(2, 4));
  w.clear_grad();
}

// Includes gradients that one operation adds up itself.
TEST_P(LeafSums, OfRowsThatAreReadOftenAreThoseOfF32) {
  const Tensor table = leaf({2, 3});
  const Tensor indices = zeros({3 * kMany}, DType::kI64);
  sum(embedding(table, indices)).backward();
  const Floats sums = table.grad().to_vector<float>();
  const float rounded = full({1}, 3 * kMany).astype(GetParam()).to_vector<float>()[0];
  EXPECT_EQ(sums, (Floats{rounded, rounded, rounded, 0, 0, 0}));
}

TEST_P(LeafSums, AddToGradDoesTheSame) {
  const Tensor w = leaf({2});
  const NoGrad guard;
  for (int i = 0; i < 3 * kMany; ++i) add_to_grad(w, ones({2}, GetParam()));
  EXPECT_EQ(w.grad().dtype(), DType::kF32);
  EXPECT_EQ(w.grad().to_vector<float>(), Floats(2, 3 * kMany));
}

// One pass with one use needs no f32 array.
TEST_P(LeafSums, OfOneGradientCostNothing) {
  constexpr std::int64_t kElements = 1 << 20;
  const Tensor w = leaf({kElements});
  const Tensor seed = ones({kElements}, GetParam());
  cpu_allocator().reset_peak();
  const std::int64_t before = cpu_allocator().stats().live_bytes;
  (w * seed).backward(seed);
  EXPECT_EQ(w.grad().dtype(), GetParam());
  // The product and its gradient, in 16 bits.
  EXPECT_LE(cpu_allocator().stats().peak_bytes - before, 3 * 2 * kElements);
}

INSTANTIATE_TEST_SUITE_P(DTypes, LeafSums, testing::Values(DType::kBf16, DType::kF16),
                         [](const auto& test) { return std::string(name_of(test.param)); });

// Wide dtypes do not become wider.
TEST(WideLeafSums, KeepTheirDtype) {
  for (const DType dtype : {DType::kF32, DType::kF64}) {
    const Tensor w = ones({2}, dtype).set_requires_grad(true);
    for (int i = 0; i < 3; ++i) sum(w).backward();
    EXPECT_EQ(w.grad().dtype(), dtype);
    EXPECT_EQ(w.grad().to_vector<double>(), (std::vector<double>{3, 3}));
  }
}

}  // namespace
}  // namespace mezzo
