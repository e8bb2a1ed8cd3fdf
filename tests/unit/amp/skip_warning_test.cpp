// A run that learns nothing warns about it. Each test has its own scale, since a warning is given
// once.
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mezzo/amp/names/loss_scale_manager.h"
#include "mezzo/amp/train_step.h"
#include "mezzo/ops/arithmetic.h"
#include "mezzo/ops/reduce.h"
#include "mezzo/optim/sgd.h"
#include "tests/unit/amp/small_net.h"
#include "tests/unit/amp/warnings.h"

namespace mezzo::amp {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST(SkipWarning, ComesAtTheFloorOfAScale) {
  LossScaleState state({.init_scale = 6, .min_scale = 3});
  state.update(true);
  EXPECT_EQ(state.scale(), 3);
  EXPECT_THAT(warnings.text(), Not(HasSubstr("allowed: 3. ")));
  state.update(true);
  EXPECT_THAT(warnings.text(), HasSubstr("overflow at the smallest scale allowed: 3. The grad"));
}

TEST(SkipWarning, AScaleThatStaysHasNoFloor) {
  LossScaleState state(fixed_loss_scale(5));
  state.update(true);
  EXPECT_THAT(warnings.text(), Not(HasSubstr("allowed: 5. ")));
}

TEST(SkipWarning, ComesAfterManyOverflows) {
  const Tensor w = ones({1}).set_requires_grad(true);
  optim::Sgd optimizer({w});
  GradScaler scaler(LossScaleManager(fixed_loss_scale(7)));
  const char* text =
      "100 steps were skipped in a row: a gradient is not finite, and the scale is 7.";
  for (std::int64_t i = 1; i <= kManySkips; ++i) {
    EXPECT_THAT(warnings.text(), Not(HasSubstr(text))) << i;
    scaler.scale(sum(w * std::numeric_limits<double>::infinity())).backward();
    EXPECT_FALSE(scaler.step(optimizer).stepped);
    scaler.update();
    optimizer.zero_grad();
  }
  EXPECT_THAT(warnings.text(), HasSubstr(text));
}

// No further warning at each smaller scale.
TEST(SkipWarning, ComesOnceForOneSearch) {
  for (std::int64_t skipped = kManySkips - 1; skipped < kManySkips + 3; ++skipped) {
    warn_of_skips(skipped, 13 + static_cast<double>(skipped), "a gradient is bad");
  }
  const std::string text = warnings.text();
  const std::size_t first = text.find("a gradient is bad, and the scale is 113.");
  ASSERT_NE(first, std::string::npos);
  EXPECT_EQ(text.find("a gradient is bad", first + 1), std::string::npos);
}

TEST(SkipWarning, ComesAfterManyLossesThatAreNotFinite) {
  SmallNet net;
  optim::Sgd optimizer(net.parameters());
  const auto loss = [](const Tensor& logits, const Tensor& labels) {
    return class_loss(logits, labels) * std::numeric_limits<double>::infinity();
  };
  TrainStep step(net, loss, optimizer, GradScaler({.init_scale = 11}));
  const char* text = "skipped in a row: the last loss is inf, and the scale is 11.";
  const Batch batch = small_batch(1);
  for (std::int64_t i = 1; i <= kManySkips; ++i) {
    EXPECT_THAT(warnings.text(), Not(HasSubstr(text))) << i;
    EXPECT_TRUE(step(batch.images, batch.labels).skipped);
  }
  EXPECT_THAT(warnings.text(), HasSubstr(text));
}

// The scaler counts the same steps.
TEST(SkipWarning, ComesOnceForTheOverflowsOfATrainingStep) {
  SmallNet net;
  optim::Sgd optimizer(net.parameters());
  GradScaler scaler(LossScaleManager(fixed_loss_scale(0x1p127)));
  TrainStep step(net, steep_loss, optimizer, std::move(scaler));
  const Batch batch = small_batch(1);
  for (std::int64_t i = 0; i < kManySkips; ++i) {
    EXPECT_TRUE(step(batch.images, batch.labels).overflow);
  }
  const std::string scale = concat("the scale is ", 0x1p127);
  EXPECT_THAT(warnings.text(), HasSubstr(concat("a gradient is not finite, and ", scale)));
  EXPECT_THAT(warnings.text(), Not(HasSubstr(concat("bias is not finite, and ", scale))));
  EXPECT_THAT(warnings.text(), Not(HasSubstr(concat("weight is not finite, and ", scale))));
}

}  // namespace
}  // namespace mezzo::amp
