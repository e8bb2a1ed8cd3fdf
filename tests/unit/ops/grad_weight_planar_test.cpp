// Tests the kernel of conv2d_grad_weight for few channels against plain sums.
#include "mezzo/kernels/cpu/conv/planar/grad_weight_planar.h"

#include <cmath>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "mezzo/core/random.h"
#include "mezzo/ops/cast.h"
#include "tests/unit/ops/plain_grad_weight.h"
#include "tests/unit/ops/planar_cases.h"
#include "tests/unit/ops/support.h"

namespace mezzo {
namespace {

using test::PlanarCase;

std::vector<PlanarCase> small_cases() {
  return test::small_planar_cases({1, 2, 3, 5, 6, 7}, {1, 2, 3, 5, 6, 7, 16, 17, 64});
}

// Includes cases with more output channels.
std::vector<PlanarCase> odd_cases() {
  std::vector<PlanarCase> cases = test::odd_planar_cases();
  cases.push_back({{2, 6, 1, 40}, 16, {1, 5}, {.padding = {0, 0, 2, 2}}});
  cases.push_back({{1, 3, 33, 47}, 16, {3, 3}, {.padding = {1, 1, 1, 1}}});
  cases.push_back({{2, 6, 14, 14}, 16, {5, 5}});
  cases.push_back({{1, 2, 30, 40}, 150, {3, 3}});
  return cases;
}

Tensor run(const PlanarCase& c, const Tensor& grad, const Tensor& x, DType result = DType::kF32) {
  const Attrs attrs(Conv2dGradAttrs{c.attrs, c.kernel, result == DType::kF32});
  Tensor out = empty(c.weight(), result);
  const std::array<const Tensor*, 2> inputs{&grad, &x};
  kernels::run_grad_weight_planar({inputs, {&out, 1}, attrs});
  return out;
}

std::string describe(const PlanarCase& c, DType dtype) {
  return concat(dtype, ", x ", c.x, ", weight ", c.weight());
}

void check(const PlanarCase& c, DType dtype) {
  const Tensor x = cast(randn(c.x), dtype);
  const Tensor grad = cast(randn(c.y()), dtype);
  const Tensor result = run(c, grad, x);
  const Tensor wide_x = cast(x, DType::kF64);
  const Tensor wide_grad = cast(grad, DType::kF64);
  // Every eleventh element, which covers every tap and channel in some case, and the last one.
  for (std::int64_t i = 0; i < result.numel(); i = i + 11 < result.numel() ? i + 11 : i + 1) {
    const Shape at = test::place_of_weight(result.shape(), i);
    const test::PlainSum sum = test::plain_grad_weight(c.attrs, wide_grad, wide_x, at);
    // Every addition is rounded once to f32. Without FMA, so is every product of f32 values;
    // products of 16-bit values are exact.
    const auto roundings =
        static_cast<double>(dtype == DType::kF32 ? 2 * sum.terms + 1 : sum.terms + 1);
    ASSERT_NEAR(result.data<float>()[i], sum.value, roundings * 0x1p-24 * sum.magnitude)
        << concat(describe(c, dtype), " at ", at);
  }
}

TEST(GradWeightPlanar, IsThePlainSum) {
  manual_seed(7);
  for (const DType dtype : test::kVectorDTypes) {
    for (const PlanarCase& c : small_cases()) check(c, dtype);
    for (const PlanarCase& c : odd_cases()) check(c, dtype);
  }
}

TEST(GradWeightPlanar, IsTheSameWithEveryNumberOfThreads) {
  manual_seed(7);
  for (const PlanarCase& c : odd_cases()) {
    const Tensor x = cast(randn(c.x), DType::kBf16);
    const Tensor grad = cast(randn(c.y()), DType::kBf16);
    const auto with_threads = [&](int threads) {
      const test::Threads guard(threads);
      return run(c, grad, x).to_vector<float>();
    };
    const std::vector<float> expected = with_threads(1);
    EXPECT_EQ(with_threads(2), expected) << describe(c, DType::kBf16);
    EXPECT_EQ(with_threads(3), expected) << describe(c, DType::kBf16);
  }
}

TEST(GradWeightPlanar, ReadsAnyLayout) {
  const PlanarCase c{{2, 3, 6, 20}, 6, {3, 3}};
  const Tensor x = cast(randn(c.x), DType::kF16);
  const Tensor grad = cast(randn(c.y()), DType::kF16);
  const Tensor last_x = empty(c.x, DType::kF16, Format::kChannelsLast);
  const Tensor last_grad = empty(c.y(), DType::kF16, Format::kChannelsLast);
  copy_elements(x, last_x);
  copy_elements(grad, last_grad);
  EXPECT_EQ(run(c, grad, x).to_vector<float>(), run(c, last_grad, last_x).to_vector<float>());
}

TEST(GradWeightPlanar, IsRoundedOnceToTheResultsDtype) {
  const PlanarCase c{{2, 1, 9, 9}, 6, {5, 5}};
  for (const DType dtype : {DType::kBf16, DType::kF16}) {
    const Tensor x = cast(randn(c.x), dtype);
    const Tensor grad = cast(randn(c.y()), dtype);
    EXPECT_EQ(run(c, grad, x, dtype).to_vector<float>(),
              cast(run(c, grad, x), dtype).to_vector<float>());
  }
}

TEST(GradWeightPlanar, ANanReachesEveryWeightThatMeetsIt) {
  manual_seed(7);
  for (const DType dtype : test::kVectorDTypes) {
    for (const PlanarCase& c : odd_cases()) {
      const Tensor x = randn(c.x);
      x.mutable_data<float>()[x.numel() / 2] = std::numeric_limits<float>::quiet_NaN();
      const Tensor grad = cast(randn(c.y()), dtype);
      const Tensor result = run(c, grad, cast(x, dtype));
      const Tensor wide_x = cast(x, DType::kF64);
      const Tensor wide_grad = cast(grad, DType::kF64);
      for (std::int64_t i = 0; i < result.numel(); i += 5) {
        const Shape at = test::place_of_weight(result.shape(), i);
        if (!std::isnan(test::plain_grad_weight(c.attrs, wide_grad, wide_x, at).value)) continue;
        ASSERT_TRUE(std::isnan(result.data<float>()[i])) << concat(describe(c, dtype), " at ", at);
      }
    }
  }
}

// Leaves NaN in the blocks that the allocator will return next.
void spoil_free_memory() {
  constexpr std::int64_t kMost = std::int64_t{1} << 19;
  std::vector<Tensor> blocks;
  for (std::int64_t size = 16; size < kMost; size += std::max<std::int64_t>(size / 16, 1)) {
    for (int i = 0; i < 2; ++i) blocks.push_back(full({size}, NAN));
  }
}

TEST(GradWeightPlanar, ReadsNothingThatItDidNotWrite) {
  manual_seed(7);
  const test::Threads guard(1);
  std::vector<PlanarCase> cases = small_cases();
  for (const PlanarCase& c : odd_cases()) cases.push_back(c);
  for (const PlanarCase& c : cases) {
    const Tensor x = cast(randn(c.x), DType::kBf16);
    const Tensor grad = cast(randn(c.y()), DType::kBf16);
    spoil_free_memory();
    for (const float value : run(c, grad, x).to_vector<float>()) {
      ASSERT_FALSE(std::isnan(value)) << describe(c, DType::kBf16);
    }
  }
}

}  // namespace
}  // namespace mezzo
