// Tests an optimizer's state when gradients have become zero, on every instruction set.
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <hwy/targets.h>

#include "tests/unit/every_target.h"
#include "tests/unit/optim/steps.h"
#include "tests/unit/special_values.h"

namespace mezzo {
namespace {

using testing::Each;

constexpr float kLeast = std::numeric_limits<float>::min();
constexpr std::int64_t kCount = 37;  // whole vectors and a partial one

class VanishedGradients : public test::OnEveryTarget {};

// The momentum after some steps with zero gradients.
std::vector<float> momentum_after(int steps, double momentum, bool nesterov) {
  const SgdTensors tensors{.param = ones({kCount}),
                           .grad = zeros({kCount}),
                           .momentum = full({kCount}, momentum),
                           .first = false};
  for (int i = 0; i < steps; ++i) {
    sgd_step({&tensors, 1}, {.lr = 0.1, .momentum = 0.5, .nesterov = nesterov});
  }
  return tensors.momentum.to_vector<float>();
}

TEST_P(VanishedGradients, MomentaEndAtZero) {
  for (const bool nesterov : {false, true}) {
    EXPECT_THAT(momentum_after(1, 2 * kLeast, nesterov), Each(kLeast));
    EXPECT_THAT(momentum_after(2, 2 * kLeast, nesterov), Each(0.0F));
    EXPECT_THAT(momentum_after(2, -2 * kLeast, nesterov), Each(0.0F));
    EXPECT_THAT(momentum_after(1, kInf, nesterov), Each(kInf));
    EXPECT_TRUE(std::isnan(momentum_after(1, std::nan(""), nesterov).front()));
  }
}

struct Moments {
  std::vector<float> first, second;
};

Moments moments_after(const AdamStep& step, double first, double second) {
  const AdamTensors tensors{.param = ones({kCount}),
                            .grad = zeros({kCount}),
                            .exp_avg = full({kCount}, first),
                            .exp_avg_sq = full({kCount}, second)};
  adam_step({&tensors, 1}, step);
  return {tensors.exp_avg.to_vector<float>(), tensors.exp_avg_sq.to_vector<float>()};
}

TEST_P(VanishedGradients, MomentsEndAtZero) {
  for (const double beta1 :
       {0.25, 0.75}) {  // the moment moves towards the gradient or away from it
    const AdamStep step{.beta1 = beta1, .beta2 = 0.5, .eps = 1e-8};
    const Moments before = moments_after(step, 4 * kLeast, 2 * kLeast);
    EXPECT_THAT(before.first, Each(static_cast<float>(4 * beta1) * kLeast));
    EXPECT_THAT(before.second, Each(kLeast));
    const Moments behind = moments_after(step, kLeast, kLeast);
    EXPECT_THAT(behind.first, Each(0.0F));
    EXPECT_THAT(behind.second, Each(0.0F));
  }
}

// Without an epsilon that hides them, subnormal moments determine the step.
TEST_P(VanishedGradients, MomentsStayWithoutAnEpsilon) {
  const Moments moments = moments_after({.beta1 = 0.5, .beta2 = 0.5, .eps = 0}, kLeast, kLeast);
  EXPECT_THAT(moments.first, Each(kLeast / 2));
  EXPECT_THAT(moments.second, Each(kLeast / 2));
}

INSTANTIATE_TEST_SUITE_P(Targets, VanishedGradients,
                         testing::ValuesIn(hwy::SupportedAndGeneratedTargets()), test::target_name);

}  // namespace
}  // namespace mezzo
