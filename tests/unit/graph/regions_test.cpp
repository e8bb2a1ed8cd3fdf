// Compares captured steps with mixed-precision regions with the same steps run eagerly.
#include <gmock/gmock.h>

#include "mezzo/amp/autocast.h"
#include "mezzo/core/random.h"
#include "mezzo/graph/compile.h"
#include "mezzo/ops/arithmetic.h"
#include "mezzo/ops/binary_cross_entropy.h"
#include "mezzo/ops/cast.h"
#include "mezzo/ops/matmul.h"
#include "mezzo/ops/pointwise.h"
#include "mezzo/ops/reduce.h"
#include "mezzo/ops/shape_ops.h"
#include "mezzo/ops/softmax.h"
#include "tests/unit/message_of.h"

namespace mezzo::graph {
namespace {

constexpr amp::Level kDecided[] = {amp::Level::kO0, amp::Level::kO1, amp::Level::kO2,
                                   amp::Level::kO3};

// Runs the step in a region of each level but auto, eagerly and captured.
void expect_the_same(const Step& step, const Tensor& x) {
  for (const amp::Level level : kDecided) {
    const Step in_region = [&](std::span<const Tensor> in) {
      const amp::Autocast region({.level = level});
      return step(in);
    };
    const std::vector<Tensor> got = compile(in_region)({&x, 1});
    const std::vector<Tensor> want = in_region({&x, 1});
    ASSERT_EQ(got.size(), want.size());
    for (std::size_t i = 0; i < got.size(); ++i) {
      EXPECT_EQ(got[i].dtype(), want[i].dtype()) << amp::name_of(level);
      EXPECT_EQ(got[i].to_vector<double>(), want[i].to_vector<double>()) << amp::name_of(level);
    }
  }
}

TEST(Regions, LeavePartsOfALossInF32) {
  manual_seed(1);
  const auto losses = [](std::span<const Tensor> in) -> std::vector<Tensor> {
    const Tensor targets = sigmoid(-in[0]);
    return {binary_cross_entropy_with_logits(in[0], targets),
            binary_cross_entropy_with_logits(in[0], targets, Reduction::kSum)};
  };
  expect_the_same(losses, randn({4, 5}));
}

TEST(Regions, CastsToTheDTypeThatIsThereLeaveTheLayout) {
  manual_seed(2);
  const auto sums = [](std::span<const Tensor> in) -> std::vector<Tensor> {
    return {mean(transpose(in[0]).astype(DType::kF32), {1}),
            sum(transpose(exp(in[0].astype(DType::kF32))).astype(DType::kF32), {0})};
  };
  expect_the_same(sums, randn({33, 65}));
}

// One part is added to the sum of the others, whatever the order of the step's calls.
TEST(Regions, CastsToTheDTypeThatIsThereLeaveTheOrderOfGradients) {
  manual_seed(3);
  const auto gradient = [](std::span<const Tensor> in) -> std::vector<Tensor> {
    const Tensor x = in[0].detach().set_requires_grad(true);
    const Tensor y = exp(x);
    const Tensor same = y.astype(DType::kF32);
    sum(y * 0.3 + same * 0.7 + (same * 1.7 + y * 1.9)).backward();
    // NOLINTNEXTLINE(performance-unnecessary-copy-initialization): the original changes
    Tensor grad = x.grad();
    x.clear_grad();
    return {grad};
  };
  expect_the_same(gradient, randn({64}));
}

// Decisions for the remaining calls must not use what belonged to the failed one.
TEST(Regions, AFailureThatTheStepCatchesLeavesNothing) {
  manual_seed(4);
  const auto falls_back = [](std::span<const Tensor> in) -> std::vector<Tensor> {
    const Tensor& x = in[0];  // [4, 5], which cannot be multiplied by itself
    Tensor y = exp(x);
    try {
      y = matmul(y, x);
    } catch (const ArgumentError&) {
      y = matmul(y, x, {.transpose_b = true});
    }
    try {
      y = y + softmax(x);
    } catch (const ArgumentError&) {
      y = sigmoid(y);
    }
    return {mean(y, {0})};
  };
  expect_the_same(falls_back, randn({4, 5}));
}

TEST(Regions, ARefusalIsThrownWhereTheStepCanCatchIt) {
  manual_seed(5);
  const auto loss = [](std::span<const Tensor> in) -> std::vector<Tensor> {
    const Tensor targets = sigmoid(-in[0]);
    try {
      return {binary_cross_entropy(sigmoid(in[0]), targets)};
    } catch (const ArgumentError&) {
      return {binary_cross_entropy_with_logits(in[0], targets)};
    }
  };
  expect_the_same(loss, randn({4, 5}));
}

TEST(Regions, CallsThatAreLeftOutInMixedPrecisionAreNamed) {
  const auto shorter = [](std::span<const Tensor> in) -> std::vector<Tensor> {
    const amp::Autocast region(DType::kBf16);
    const Tensor y = matmul(in[0], in[0]);
    return {y.dtype() == DType::kBf16 ? y : exp(y)};
  };
  const Tensor x = ones({4, 4});
  EXPECT_THAT(
      message_of<ArgumentError>([&] {
        compile(shorter)({&x, 1});
      }),
      testing::HasSubstr("different calls when values have different dtypes: 1 when they are made "
                         "in mixed precision, and 2 else. Decide only by"));
}

}  // namespace
}  // namespace mezzo::graph
