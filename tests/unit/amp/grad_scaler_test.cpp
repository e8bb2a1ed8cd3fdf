#include "mezzo/amp/grad_scaler.h"

#include <cmath>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mezzo/amp/autocast.h"
#include "mezzo/ops/arithmetic.h"
#include "mezzo/ops/reduce.h"
#include "mezzo/optim/sgd.h"
#include "tests/unit/message_of.h"
#include "tests/unit/special_values.h"

namespace mezzo::amp {
namespace {

using testing::HasSubstr;

// Two parameters, trained to follow known gradients.
struct TwoGradients {
  Tensor a = from_values({1.0F, 2.0F}, {2}).set_requires_grad(true);
  Tensor b = from_values({3.0F}, {1}).set_requires_grad(true);
  optim::Sgd optimizer{{a, b}, {.lr = 0.5, .momentum = 0.5}};

  // d(loss)/da = factor, d(loss)/db = 2 * factor.
  Tensor loss(double factor) const { return sum(a * factor) + sum(b * (2 * factor)); }
};

TEST(GradScaler, AStepIsTheStepWithoutScaling) {
  TwoGradients scaled;
  TwoGradients plain;
  GradScaler scaler({.init_scale = 1024});
  for (int i = 0; i < 3; ++i) {
    scaler.scale(scaled.loss(0.25)).backward();
    EXPECT_TRUE(scaler.step(scaled.optimizer).stepped);
    scaler.update();
    scaled.optimizer.zero_grad();
    plain.loss(0.25).backward();
    plain.optimizer.step();
    plain.optimizer.zero_grad();
  }
  EXPECT_EQ(scaled.a.to_vector<float>(), plain.a.to_vector<float>());
  EXPECT_EQ(scaled.b.to_vector<float>(), plain.b.to_vector<float>());
}

TEST(GradScaler, UnscaledGradientsAreTheTrueOnes) {
  TwoGradients net;
  GradScaler scaler({.init_scale = 4096});
  scaler.scale(net.loss(0.25)).backward();
  EXPECT_EQ(net.a.grad().to_vector<float>()[0], 1024);
  scaler.unscale_(net.optimizer);
  EXPECT_EQ(net.a.grad().to_vector<float>()[0], 0.25F);
  EXPECT_TRUE(scaler.step(net.optimizer).stepped);
  EXPECT_EQ(net.a.to_vector<float>()[0], 1 - 0.5F * 0.25F);
}

TEST(GradScaler, ASkippedStepChangesNothingAndNamesTheParameter) {
  for (const bool unscale_first : {false, true}) {
    TwoGradients net;
    GradScaler scaler({.init_scale = 8});
    scaler.scale(net.loss(1)).backward();
    scaler.step(net.optimizer);  // fills the momentum
    scaler.update();
    net.optimizer.zero_grad();
    const auto a = net.a.to_vector<float>();
    const auto momentum = net.optimizer.state()[0].tensor.to_vector<float>();
    scaler.scale(net.loss(1)).backward();
    net.b.set_grad(from_values({kInf}, {1}));
    if (unscale_first) scaler.unscale_(net.optimizer);
    const StepResult result = scaler.step(net.optimizer);
    scaler.update();
    EXPECT_FALSE(result.stepped);
    EXPECT_TRUE(result.found_inf);
    EXPECT_EQ(result.first_bad, 1U);
    EXPECT_EQ(net.a.to_vector<float>(), a);
    EXPECT_EQ(net.optimizer.state()[0].tensor.to_vector<float>(), momentum);
    EXPECT_EQ(scaler.get_scale(), 4);
  }
}

TEST(GradScaler, NaNIsFoundToo) {
  TwoGradients net;
  GradScaler scaler;
  scaler.scale(net.loss(1)).backward();
  net.a.set_grad(from_values({0.0F, std::nanf("")}, {2}));
  EXPECT_EQ(scaler.step(net.optimizer).first_bad, 0U);
}

TEST(GradScaler, OneOverflowingOptimizerSkipsAloneAndShrinksTheScale) {
  TwoGradients good;
  TwoGradients bad;
  GradScaler scaler({.init_scale = 8});
  scaler.scale(good.loss(1) + bad.loss(1)).backward();
  bad.a.set_grad(from_values({kInf, 0.0F}, {2}));
  EXPECT_TRUE(scaler.step(good.optimizer).stepped);
  EXPECT_FALSE(scaler.step(bad.optimizer).stepped);
  scaler.update();
  EXPECT_EQ(scaler.get_scale(), 4);
  EXPECT_NE(good.a.to_vector<float>()[0], 1);
  EXPECT_EQ(bad.a.to_vector<float>()[0], 1);
}

TEST(GradScaler, ASmallScaleUnscalesBeforeItChecks) {
  TwoGradients net;
  GradScaler scaler({.init_scale = 0.5, .min_scale = 0});
  scaler.scale(net.loss(1)).backward();
  net.a.set_grad(from_values({std::numeric_limits<float>::max(), 0.0F}, {2}));
  EXPECT_FALSE(scaler.step(net.optimizer).stepped);  // finite scaled, infinite unscaled
}

TEST(GradScaler, ALossIn16BitsIsScaledInF32) {
  GradScaler scaler;
  const Tensor loss = from_values({4.0F}, {}).astype(DType::kF16);
  EXPECT_EQ(scaler.scale(loss).item(), 4 * 65536);
}

// The gradient of the loss is the scale. For a loss computed in f16, it must be an f16 value.
TEST(GradScaler, AnF16LossTakesScalesUpTo2To15) {
  for (const double scale : {0x1p15, 0x1p16}) {
    const Tensor w = from_values({0.25F}, {1}).set_requires_grad(true);
    GradScaler scaler({.init_scale = scale});
    scaler.scale(sum(w).astype(DType::kF16)).backward();
    EXPECT_EQ(std::isfinite(w.grad().item()), scale == 0x1p15);
  }
}

// A disabled scaler does not check its options.
TEST(GradScaler, ADisabledOneTakesAnyOptions) {
  for (const LossScaleOptions& options :
       {LossScaleOptions{.init_scale = 0}, LossScaleOptions{.init_scale = -1, .growth_factor = 1},
        LossScaleOptions{.backoff_factor = 2, .growth_interval = -1, .hysteresis = 0}}) {
    EXPECT_THROW(GradScaler{options}, ArgumentError);
    const GradScaler scaler(options, false);
    EXPECT_FALSE(scaler.is_enabled());
    EXPECT_EQ(scaler.get_scale(), 1);
  }
}

TEST(GradScaler, DisabledPassesThrough) {
  TwoGradients net;
  GradScaler scaler({}, false);
  const Tensor loss = net.loss(1);
  EXPECT_EQ(scaler.scale(loss).impl(), loss.impl());
  loss.backward();
  net.b.set_grad(from_values({kInf}, {1}));
  EXPECT_TRUE(scaler.step(net.optimizer).stepped);
  scaler.update();
  EXPECT_EQ(scaler.get_scale(), 1);
}

TEST(GradScaler, MisuseSaysWhatToDo) {
  TwoGradients net;
  GradScaler scaler;
  EXPECT_THAT(message_of([&] { scaler.step(net.optimizer); }), HasSubstr("scaler.scale(loss)"));
  EXPECT_THAT(message_of([&] { scaler.unscale_(net.optimizer); }), HasSubstr("scale(loss)"));
  EXPECT_THAT(message_of([&] { scaler.update(); }), HasSubstr("no gradients were checked"));
  scaler.scale(net.loss(1)).backward();
  scaler.unscale_(net.optimizer);
  EXPECT_THAT(message_of([&] { scaler.unscale_(net.optimizer); }), HasSubstr("already called"));
  scaler.step(net.optimizer);
  EXPECT_THAT(message_of([&] { scaler.step(net.optimizer); }),
              HasSubstr("step() was already called"));
  EXPECT_THAT(message_of([&] { scaler.unscale_(net.optimizer); }), HasSubstr("after step()"));
  EXPECT_THAT(message_of([&] { scaler.update(-1); }), HasSubstr("must be positive"));
  scaler.update();
  scaler.scale(net.loss(1)).backward();
  EXPECT_NO_THROW(scaler.step(net.optimizer));
}

// The region does not apply to the scale: in f16 it would be infinite, and the loss rounded.
TEST(GradScaler, ScalesInF32InARegion) {
  GradScaler scaler({.init_scale = 0x1p20});
  const Autocast region({.level = Level::kO3, .lower = DType::kF16});
  const Tensor scaled = scaler.scale(from_values({1 + 0x1p-20F}, {1}));
  EXPECT_EQ(scaled.dtype(), DType::kF32);
  EXPECT_EQ(scaled.to_vector<float>()[0], 0x1p20F + 1);
}

// One tensor is the gradient of two parameters, each of an optimizer of its own.
TEST(GradScaler, UnscalesASharedGradientOnceForEachOptimizer) {
  const Tensor a = ones({2}).set_requires_grad(true);
  const Tensor b = ones({2}).set_requires_grad(true);
  optim::Sgd first({a});
  optim::Sgd second({b});
  GradScaler scaler({.init_scale = 256});
  scaler.scale(sum((a + b) * 3)).backward();
  scaler.unscale_(first);
  scaler.unscale_(second);
  EXPECT_EQ(a.grad().to_vector<float>(), (std::vector<float>{3, 3}));
  EXPECT_EQ(b.grad().to_vector<float>(), (std::vector<float>{3, 3}));
}

}  // namespace
}  // namespace mezzo::amp
