// Tests that the first overflow is named for steps on a card, also after parts were recorded.
#include "mezzo/numbers/first_overflow.h"

#include <cmath>
#include <optional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mezzo/amp/train_step.h"
#include "mezzo/graph/train_step.h"
#include "mezzo/optim/sgd.h"
#include "tests/unit/amp/small_net.h"
#include "tests/unit/cuda/card.h"

namespace mezzo {
namespace {

class CudaFirstOverflow : public OnCard<testing::TestWithParam<bool>> {};

TEST_P(CudaFirstOverflow, IsNamedAndLeavesTheWeights) {
  amp::SmallNet net;
  net.to(kCard);
  optim::Sgd optimizer(net.parameters(), {.lr = 0.01});
  numbers::FirstOverflow overflow(net, {});
  amp::TrainStep step(net, amp::class_loss, optimizer, amp::GradScaler({}, false),
                      {.check_gradients = true, .observers = {&overflow}});
  if (GetParam()) step.set_execution(graph::captured(net));
  const auto run = [&](std::uint64_t seed, float first) {
    const amp::Batch batch = amp::small_batch(seed);
    batch.images.mutable_data<float>()[0] = first;
    return step(batch.images.to(kCard), batch.labels.to(kCard));
  };
  constexpr int kSteps = 5;  // the first ones of a captured step run eagerly
  for (int i = 0; i < kSteps; ++i) EXPECT_FALSE(run(1, 0).skipped);
  const std::vector<float> before = floats(net.parameters()[0]);
  EXPECT_TRUE(run(2, std::nanf("")).skipped);
  EXPECT_EQ(floats(net.parameters()[0]), before);
  ASSERT_EQ(overflow.findings().size(), 1);
  const numbers::OverflowFinding& found = overflow.findings()[0];
  EXPECT_EQ(found.call.path, "conv") << found.text();
  EXPECT_EQ(found.step, kSteps + 1);
  EXPECT_THAT(found.text(), testing::HasSubstr("is NaN"));
  EXPECT_FALSE(run(3, 0).skipped);
  EXPECT_NE(floats(net.parameters()[0]), before);
}

INSTANTIATE_TEST_SUITE_P(Modes, CudaFirstOverflow, testing::Bool(), [](const auto& instance) {
  return instance.param ? "Captured" : "Eager";
});

}  // namespace
}  // namespace mezzo
