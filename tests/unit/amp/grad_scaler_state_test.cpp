// Tests what a GradScaler saves, what may change when, and several optimizers, losses and
// micro-batches.
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mezzo/amp/grad_scaler.h"
#include "mezzo/amp/names/loss_scale_manager.h"
#include "mezzo/amp/names/oneflow_scalers.h"
#include "mezzo/ops/arithmetic.h"
#include "mezzo/ops/reduce.h"
#include "mezzo/optim/sgd.h"
#include "tests/unit/amp/warnings.h"
#include "tests/unit/message_of.h"
#include "tests/unit/special_values.h"

namespace mezzo::amp {
namespace {

using testing::HasSubstr;

// One parameter whose gradient is the factor of its loss.
struct OneParameter {
  Tensor w = from_values({1.0F}, {1}).set_requires_grad(true);
  optim::Sgd optimizer{{w}, {.lr = 0.5}};

  Tensor loss(double factor) const { return sum(w * factor); }
  float value() const { return w.data<float>()[0]; }
};

// Runs one iteration with the gradient `value`; returns the scale after it.
double iterate(GradScaler& scaler, float value) {
  OneParameter net;
  scaler.scale(net.loss(1)).backward();
  net.w.set_grad(from_values({value}, {1}));
  scaler.step(net.optimizer);
  scaler.update();
  return scaler.get_scale();
}

TEST(GradScalerState, HasPyTorchsKeysInOrder) {
  GradScaler scaler({.init_scale = 64, .growth_interval = 5, .hysteresis = 2});
  iterate(scaler, 1);
  EXPECT_EQ(scaler.state_dict(), (GradScaler::StateDict{{"scale", 64},
                                                        {"growth_factor", 2},
                                                        {"backoff_factor", 0.5},
                                                        {"growth_interval", 5},
                                                        {"_growth_tracker", 1},
                                                        {"_hysteresis_left", 2},
                                                        {"_skipped_in_a_row", 0}}));
}

TEST(GradScalerState, LoadedInMidIntervalHasTheSameFuture) {
  const LossScaleOptions options{.init_scale = 64, .growth_interval = 3, .hysteresis = 2};
  const std::vector<float> steps = {1, kInf, 1, 1, 1, kInf, kInf, 1, 1, 1, 1};
  for (std::size_t cut = 0; cut <= steps.size(); ++cut) {
    GradScaler whole(options);
    for (std::size_t i = 0; i < cut; ++i) iterate(whole, steps[i]);
    GradScaler resumed({.growth_interval = 7, .hysteresis = 2});
    resumed.load_state_dict(whole.state_dict());
    EXPECT_EQ(resumed.skipped_in_a_row(), whole.skipped_in_a_row()) << cut;
    for (std::size_t i = cut; i < steps.size(); ++i) {
      EXPECT_EQ(iterate(resumed, steps[i]), iterate(whole, steps[i])) << cut << ", " << i;
    }
    EXPECT_EQ(resumed.state_dict(), whole.state_dict());
  }
}

TEST(GradScalerState, TakesPyTorchsWithoutOurTwo) {
  GradScaler scaler({.hysteresis = 3});
  scaler.load_state_dict({{"scale", 0.25},
                          {"growth_factor", 4},
                          {"backoff_factor", 0.25},
                          {"growth_interval", 10},
                          {"_growth_tracker", 9}});
  EXPECT_EQ(scaler.get_scale(), 0.25);
  EXPECT_EQ(scaler.state().hysteresis_left(), 3);
  EXPECT_EQ(iterate(scaler, 1), 1);
}

TEST(GradScalerState, ADisabledOneSavesNothingAndLoadsAnything) {
  GradScaler disabled({}, false);
  EXPECT_TRUE(disabled.state_dict().empty());
  EXPECT_NO_THROW(disabled.load_state_dict({}));
  GradScaler scaler;
  EXPECT_THAT(message_of<ArgumentError>([&] { scaler.load_state_dict({}); }),
              HasSubstr("the state is empty"));
}

TEST(GradScalerState, ABadStateChangesNothing) {
  GradScaler scaler({.init_scale = 8});
  const GradScaler::StateDict good = GradScaler().state_dict();
  const auto load_with = [&](const char* name, double value) {
    GradScaler::StateDict state = good;
    for (auto& [key, entry] : state) entry = key == name ? value : entry;
    return message_of<ArgumentError>([&] { scaler.load_state_dict(state); });
  };
  EXPECT_THAT(load_with("scale", -1), HasSubstr("must be positive"));
  EXPECT_THAT(load_with("growth_factor", 1), HasSubstr("growth_factor"));
  EXPECT_THAT(load_with("backoff_factor", 1), HasSubstr("backoff_factor"));
  EXPECT_THAT(load_with("growth_interval", 1.5), HasSubstr("whole number"));
  EXPECT_THAT(load_with("_growth_tracker", -1), HasSubstr("not a saved state"));
  EXPECT_THAT(load_with("_hysteresis_left", -1), HasSubstr("not a saved state"));
  EXPECT_THAT(load_with("_hysteresis_left", 2), HasSubstr("a hysteresis of 1 allows fewer"));
  EXPECT_THAT(load_with("_skipped_in_a_row", -1), HasSubstr("must not be negative"));
  EXPECT_THAT(message_of<ArgumentError>([&] {
                scaler.load_state_dict({{"scale", 2}});
              }),
              HasSubstr("no entry `growth_factor`"));
  EXPECT_THAT(message_of<ArgumentError>([&] {
                scaler.load_state_dict({{"loss_scale", 2}});
              }),
              HasSubstr("unknown entry `loss_scale`"));
  EXPECT_EQ(scaler.get_scale(), 8);
  EXPECT_EQ(scaler.get_growth_factor(), 2);
}

TEST(GradScalerState, FactorsCanBeReadAndSet) {
  GradScaler scaler({.init_scale = 64});
  scaler.set_growth_factor(4);
  scaler.set_backoff_factor(0.125);
  scaler.set_growth_interval(1);
  EXPECT_EQ(scaler.get_growth_factor(), 4);
  EXPECT_EQ(scaler.get_backoff_factor(), 0.125);
  EXPECT_EQ(scaler.get_growth_interval(), 1);
  EXPECT_EQ(iterate(scaler, 1), 256);
  EXPECT_EQ(iterate(scaler, kInf), 32);
  EXPECT_THROW(scaler.set_growth_factor(0.5), ArgumentError);
}

TEST(GradScalerState, NaNAndBothInfinitiesAreOneAndTheSame) {
  for (const float bad : {kInf, -kInf, std::nanf("")}) {
    GradScaler scaler({.init_scale = 64, .growth_interval = 2});
    const std::vector<double> scales = {iterate(scaler, bad), iterate(scaler, 1),
                                        iterate(scaler, 1), iterate(scaler, bad)};
    EXPECT_EQ(scales, (std::vector<double>{32, 32, 64, 32})) << bad;
  }
}

TEST(GradScalerIteration, GrowthDoesNotChangeTheFactorOfItsStep) {
  GradScaler scaler({.init_scale = 64, .growth_interval = 1});
  OneParameter net;
  for (int i = 0; i < 3; ++i) {
    const double scale = scaler.get_scale();
    scaler.scale(net.loss(0.25)).backward();
    const StepResult result = scaler.step(net.optimizer);
    EXPECT_EQ(result.scale_used, scale);
    EXPECT_EQ(scaler.get_scale(), scale);
    scaler.update();
    EXPECT_EQ(scaler.get_scale(), 2 * scale);
    net.optimizer.zero_grad();
  }
  EXPECT_EQ(net.value(), 1 - 3 * 0.5F * 0.25F);
}

TEST(GradScalerIteration, AScaleSetInBetweenActsOnTheNextIteration) {
  GradScaler scaler({.init_scale = 64});
  OneParameter net;
  scaler.scale(net.loss(0.25)).backward();
  scaler.state().set_scale(1024);
  scaler.scale(net.loss(0.25)).backward();  // a second micro-batch
  EXPECT_EQ(net.w.grad().item(), 2 * 64 * 0.25);
  EXPECT_EQ(scaler.scale_used(), 64);
  EXPECT_EQ(scaler.step(net.optimizer).scale_used, 64);
  scaler.update();
  EXPECT_EQ(net.value(), 1 - 0.5F * 0.5F);
  EXPECT_EQ(scaler.get_scale(), 1024);
}

TEST(GradScalerIteration, SettingTheScaleEndsTheIteration) {
  GradScaler scaler({.init_scale = 64});
  OneParameter net;
  for (const double scale : {64.0, 128.0}) {
    scaler.scale(net.loss(1)).backward();
    EXPECT_EQ(scaler.step(net.optimizer).scale_used, scale);
    scaler.update(2 * scale);
    net.optimizer.zero_grad();
  }
}

TEST(GradScalerIteration, TheScaleIsNotReplacedUnderGradientsThatCarryIt) {
  GradScaler scaler({.init_scale = 64});
  OneParameter net;
  scaler.update(128);  // nothing carries a scale yet
  scaler.scale(net.loss(1)).backward();
  EXPECT_THAT(message_of<ArgumentError>([&] { scaler.update(32); }), HasSubstr("cannot change"));
  EXPECT_THAT(message_of<ArgumentError>([&] { scaler.load_state_dict(GradScaler().state_dict()); }),
              HasSubstr("cannot be loaded"));
  EXPECT_EQ(scaler.step(net.optimizer).scale_used, 128);
  scaler.update(32);
  EXPECT_EQ(scaler.get_scale(), 32);
  EXPECT_EQ(scaler.state().growth_tracker(), 0);
}

TEST(GradScalerIteration, DiscardingLeavesNoTrace) {
  GradScaler scaler({.init_scale = 64, .growth_interval = 2});
  iterate(scaler, 1);
  OneParameter net;
  scaler.scale(net.loss(1)).backward();
  scaler.discard();
  EXPECT_THROW(scaler.step(net.optimizer), ArgumentError);
  EXPECT_EQ(scaler.state().growth_tracker(), 1);
  EXPECT_NO_THROW(scaler.update(64));
}

TEST(GradScalerIteration, NothingToDoIsReportedAndDoesNotCount) {
  GradScaler scaler({.init_scale = 64, .growth_interval = 2});
  OneParameter idle;
  OneParameter busy;
  scaler.scale(busy.loss(1)).backward();
  const StepResult result = scaler.step(idle.optimizer);
  EXPECT_TRUE(result.nothing_to_do);
  EXPECT_FALSE(result.stepped);
  EXPECT_FALSE(result.found_inf);
  EXPECT_THAT(warnings.text(),
              testing::HasSubstr("[grad_scaler] no parameter of the optimizer has"));
  scaler.update();
  EXPECT_EQ(scaler.state().growth_tracker(), 0);
  scaler.scale(busy.loss(1)).backward();
  scaler.step(idle.optimizer);
  EXPECT_TRUE(scaler.step(busy.optimizer).stepped);
  scaler.update();
  EXPECT_EQ(scaler.state().growth_tracker(), 1);
  EXPECT_TRUE(GradScaler({}, false).step(idle.optimizer).nothing_to_do);
}

// The number of steps skipped in a row, after each of two overflows, a good step and an overflow.
// `end` ends each iteration.
std::vector<std::int64_t> skips_in_a_row(GradScaler& scaler, const std::function<void()>& end) {
  std::vector<std::int64_t> in_a_row;
  for (const float grad : {kInf, kInf, 1.0F, kInf}) {
    OneParameter net;
    scaler.scale(net.loss(1)).backward();
    net.w.set_grad(from_values({grad}, {1}));
    in_a_row.push_back(scaler.step(net.optimizer).skipped_in_a_row);
    end();
  }
  return in_a_row;
}

TEST(GradScalerIteration, CountsSkippedStepsInARow) {
  const std::vector<std::int64_t> expected{1, 2, 0, 1};
  GradScaler scaler({.init_scale = 64});
  EXPECT_EQ(skips_in_a_row(scaler, [&] { scaler.update(); }), expected);
  EXPECT_EQ(scaler.skipped_in_a_row(), 1);
  GradScaler by_hand({.init_scale = 64});
  EXPECT_EQ(skips_in_a_row(by_hand, [&] { by_hand.update(16); }), expected);
  by_hand.update(8);  // does not belong to an iteration
  EXPECT_EQ(by_hand.skipped_in_a_row(), 1);
}

TEST(GradScalerIteration, SeveralLossesAreScaledAlike) {
  GradScaler scaler({.init_scale = 64});
  OneParameter a;
  OneParameter b;
  const std::vector<Tensor> losses = {a.loss(1), b.loss(2)};
  for (const Tensor& loss : scaler.scale(losses)) loss.backward();
  EXPECT_EQ(a.w.grad().item(), 64);
  EXPECT_EQ(b.w.grad().item(), 128);
}

// Two losses, two optimizers; b's loss is computed after a's step, as in a two-player game.
TEST(GradScalerOptimizers, EachAloneSkipsOnItsOwn) {
  GradScaler scaler({.init_scale = 8});
  OneParameter a;
  OneParameter b;
  scaler.scale(a.loss(1)).backward();
  EXPECT_TRUE(scaler.step(a.optimizer).stepped);
  scaler.scale(b.loss(1)).backward();
  b.w.set_grad(from_values({kInf}, {1}));
  EXPECT_FALSE(scaler.step(b.optimizer).stepped);
  scaler.update();
  EXPECT_EQ(scaler.get_scale(), 4);
  EXPECT_EQ(a.value(), 0.5F);
  EXPECT_EQ(b.value(), 1);
}

TEST(GradScalerOptimizers, TogetherAllStepOrNone) {
  for (const bool overflow : {false, true}) {
    GradScaler scaler({.init_scale = 8});
    OneParameter a;
    OneParameter b;
    OneParameter idle;
    optim::Optimizer* const all[] = {&a.optimizer, &b.optimizer, &idle.optimizer};
    scaler.scale(a.loss(1) + b.loss(1)).backward();
    if (overflow) b.w.set_grad(from_values({kInf}, {1}));
    const std::vector<StepResult> results = scaler.step_together(all);
    scaler.update();
    ASSERT_EQ(results.size(), 3U);
    EXPECT_EQ(results[0].stepped, !overflow);
    EXPECT_FALSE(results[0].found_inf);
    EXPECT_EQ(results[0].skipped_in_a_row, overflow ? 1 : 0);
    EXPECT_EQ(results[1].found_inf, overflow);
    EXPECT_TRUE(results[2].nothing_to_do);
    EXPECT_EQ(a.value(), overflow ? 1 : 0.5F);
    EXPECT_EQ(b.value(), overflow ? 1 : 0.5F);
    EXPECT_EQ(scaler.get_scale(), overflow ? 4 : 8);
  }
}

TEST(GradScalerOptimizers, TogetherUsesWhatWasUnscaledBefore) {
  GradScaler scaler({.init_scale = 8});
  OneParameter a;
  OneParameter b;
  optim::Optimizer* const both[] = {&a.optimizer, &b.optimizer};
  scaler.scale(a.loss(1) + b.loss(1)).backward();
  scaler.unscale_(a.optimizer);
  EXPECT_EQ(a.w.grad().item(), 1);
  scaler.step_together(both);
  EXPECT_EQ(a.value(), 0.5F);
  EXPECT_EQ(b.value(), 0.5F);
  EXPECT_THROW(scaler.step_together(both), ArgumentError);
}

TEST(GradScalerOptimizers, TogetherWithADisabledScaler) {
  GradScaler scaler({}, false);
  OneParameter a;
  OneParameter b;
  optim::Optimizer* const both[] = {&a.optimizer, &b.optimizer};
  (a.loss(1) + b.loss(1)).backward();
  EXPECT_TRUE(scaler.step_together(both)[1].stepped);
  EXPECT_EQ(b.value(), 0.5F);
}

TEST(GradScalerGradients, In16BitsAreRefusedByIndexAndShape) {
  for (const DType dtype : {DType::kF16, DType::kBf16}) {
    GradScaler scaler;
    const Tensor a = ones({2}).set_requires_grad(true);
    const Tensor b = ones({3}).set_requires_grad(true);
    optim::Sgd optimizer({a, b});
    scaler.scale(sum(a) + sum(b)).backward();
    b.set_grad(ones({3}, dtype));
    EXPECT_THAT(message_of<ArgumentError>([&] { scaler.unscale_(optimizer); }),
                HasSubstr(concat("the gradient of parameter 1 is ", name_of(dtype), "[3]")));
    EXPECT_EQ(a.grad().data<float>()[0], 65536);
    EXPECT_THROW(scaler.step(optimizer), ArgumentError);
    EXPECT_THROW(scaler.unscale(std::vector<Tensor>{b}), ArgumentError);
    // Includes a step that divides before it checks.
    GradScaler small({.init_scale = 0.5, .min_scale = 0.25});
    small.scale(sum(a)).backward();
    EXPECT_THAT(message_of<ArgumentError>([&] { small.step(optimizer); }),
                HasSubstr("it must be f32 to be unscaled"));
  }
}

TEST(GradScalerGradients, AStepThatWasRefusedCanBeCalledAgain) {
  const Tensor weight = ones({2}).set_requires_grad(true);
  optim::Sgd optimizer({weight}, {.lr = 1});
  GradScaler scaler({.init_scale = 4});
  scaler.scale(sum(weight)).backward();
  weight.set_grad(weight.grad().astype(DType::kBf16));
  EXPECT_THROW(scaler.step(optimizer), ArgumentError);
  weight.set_grad(weight.grad().astype(DType::kF32));
  EXPECT_TRUE(scaler.step(optimizer).stepped);
  EXPECT_EQ(weight.to_vector<float>(), (std::vector<float>{0, 0}));
  EXPECT_THROW(scaler.step(optimizer), ArgumentError);
  scaler.update();
}

TEST(GradScalerGradients, WithoutTheCheckAreUnscaledAndNeverSkipped) {
  GradScaler scaler(FixedLossScaleManager(16, false));
  OneParameter net;
  scaler.scale(net.loss(1)).backward();
  EXPECT_TRUE(scaler.step(net.optimizer).stepped);
  scaler.update();
  EXPECT_EQ(net.value(), 0.5F);
  scaler.scale(net.loss(1)).backward();
  net.w.set_grad(from_values({kInf}, {1}));
  scaler.unscale_(net.optimizer);
  const StepResult result = scaler.step(net.optimizer);
  EXPECT_TRUE(result.stepped);
  EXPECT_FALSE(result.found_inf);
  EXPECT_TRUE(std::isinf(net.value()));
}

TEST(GradScalerManager, SharesTheManagersScale) {
  DynamicLossScaleManager manager(64);
  GradScaler scaler(manager);
  iterate(scaler, kInf);
  EXPECT_EQ(manager.get_loss_scale(), 32);
  manager.update_loss_scale(true);
  EXPECT_EQ(scaler.get_scale(), 16);
  EXPECT_FALSE(GradScaler(LossScaleManager()).is_enabled());
}

TEST(GradScalerOneFlow, HasItsFourParametersAndItsError) {
  GradScaler scaler = oneflow_grad_scaler(4096, 2, 0.5, 1000);
  EXPECT_EQ(scaler.get_scale(), 4096);
  EXPECT_EQ(scaler.get_growth_interval(), 1000);
  EXPECT_EQ(scaler.state().options().at_ceiling, AtCeiling::kClamp);
  EXPECT_EQ(oneflow_grad_scaler().get_scale(), 65536);
  EXPECT_NO_THROW(oneflow_grad_scaler(4096, 3, 1.0 / 3));
  EXPECT_THAT(message_of<ArgumentError>([] { oneflow_grad_scaler(4096, 2, 0.25); }),
              HasSubstr("backoff_factor must be 1 / growth_factor, they are 0.25 and 2"));
}

TEST(GradScalerOneFlow, AStaticOneNeverSkips) {
  GradScaler scaler = static_grad_scaler(0.5);
  EXPECT_EQ(iterate(scaler, 1), 0.5);
  EXPECT_EQ(iterate(scaler, kInf), 0.5);
  EXPECT_THROW(static_grad_scaler(0), ArgumentError);
}

}  // namespace
}  // namespace mezzo::amp
