// Tests the effects of one training step, and what a skipped step leaves unchanged.
#include "mezzo/amp/train_step.h"

#include <chrono>
#include <cmath>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mezzo/amp/gradient_statistics.h"
#include "mezzo/amp/half_parameters.h"
#include "mezzo/amp/names/loss_scale_manager.h"
#include "mezzo/amp/names/oneflow_scalers.h"
#include "mezzo/ops/arithmetic.h"
#include "mezzo/ops/reduce.h"
#include "mezzo/optim/adam.h"
#include "mezzo/optim/sgd.h"
#include "tests/unit/amp/small_net.h"
#include "tests/unit/amp/warnings.h"
#include "tests/unit/message_of.h"

namespace mezzo::amp {
namespace {

constexpr double kHuge = 0x1p127;  // as a loss scale, makes gradients of steep_loss() infinite

// A network, Adam, and a step in f32 with that scaler.
struct Training {
  explicit Training(GradScaler scaler, TrainStepOptions options = {},
                    LossFunction loss = steep_loss)
      : step(seeded(net), std::move(loss), optimizer, std::move(scaler), std::move(options)) {}

  static SmallNet& seeded(SmallNet& net) {
    Generator generator(11);
    for (const Tensor& param : net.parameters()) {
      copy_elements(randn(param.shape(), generator) * 0.3, param);
    }
    return net;
  }

  TrainStepResult operator()(const Batch& batch) { return step(batch.images, batch.labels); }
  auto state() const { return everything(net, optimizer); }

  SmallNet net;
  optim::Adam optimizer{net.parameters(), {.lr = 0.05}};
  TrainStep step;
};

GradScaler scaler_at(double scale) { return GradScaler({.init_scale = scale}); }
GradScaler no_scaler() { return GradScaler({}, false); }

Batch with_nan(Batch batch, std::int64_t element = 0) {
  batch.images.mutable_data<float>()[element] = std::nanf("");
  return batch;
}

TEST(TrainStep, ReportsTheTrueLossAndBothScales) {
  Training plain(no_scaler());
  Training scaled(GradScaler({.init_scale = 256, .growth_interval = 1}));
  const TrainStepResult a = plain(small_batch(1));
  const TrainStepResult b = scaled(small_batch(1));
  EXPECT_EQ(a.loss, b.loss);
  EXPECT_EQ(a.scale, 1);
  EXPECT_EQ(b.scale, 256);
  EXPECT_EQ(b.next_scale, 512);
  EXPECT_FALSE(b.skipped || b.overflow || b.nonfinite_loss);
  EXPECT_EQ(b.first_bad, "");
  EXPECT_FALSE(scaled.net.parameters()[0].grad().defined());
}

TEST(TrainStep, AnOptimizerOfOtherParametersIsAnError) {
  SmallNet net;
  SmallNet other;
  optim::Sgd of_other(other.parameters(), {.lr = 0.1});
  const Batch batch = small_batch(1);
  TrainStep step(net, class_loss, of_other, GradScaler({}, false));
  EXPECT_THAT(message_of<ArgumentError>([&] { step(batch.images, batch.labels); }),
              testing::HasSubstr("[train_step] the optimizer holds none of the network's 6 "
                                 "parameters"));
  // It replaces all parameters but those of norms.
  optim::Sgd of_old(net.parameters(), {.lr = 0.1});
  TrainStep late(net, class_loss, of_old, GradScaler({}, false));
  half_parameters(net, DType::kBf16);
  late(batch.images, batch.labels);
  EXPECT_THAT(warnings.text(),
              testing::HasSubstr("the optimizer holds 4 parameters that are not the network's, and "
                                 "4 of the network's it does not"));
  // Neither frozen parameters nor a second network are reported as missing.
  SmallNet frozen;
  for (const nn::Module::Member& member : frozen.children()[0].module->own_parameters()) {
    member.tensor->set_requires_grad(false);
  }
  std::vector<Tensor> more = other.parameters();
  for (const Tensor& param : frozen.parameters()) {
    if (param.requires_grad()) more.push_back(param);
  }
  optim::Sgd of_both(more, {.lr = 0.1});
  const std::size_t so_far = warnings.text().size();
  TrainStep both(frozen, class_loss, of_both, GradScaler({}, false));
  both(batch.images, batch.labels);
  EXPECT_EQ(warnings.text().size(), so_far);
  // Some of the parameters are enough.
  const std::vector<Tensor> some{net.parameters().back()};
  optim::Sgd of_some(some, {.lr = 0.1});
  TrainStep fine_tune(net, class_loss, of_some, GradScaler({}, false));
  EXPECT_NO_THROW(fine_tune(batch.images, batch.labels));
  EXPECT_EQ(warnings.text().size(), so_far);
}

// Concerns parameters that the step does not train, and gradients of an earlier backward pass: at
// another scale, they would be added to those of a step that trains everything.
TEST(TrainStep, LeavesNoGradientAndTakesNone) {
  Training fresh(scaler_at(128));
  Training used(scaler_at(128));
  const std::vector<Tensor> head{used.net.parameters().back()};
  optim::Sgd of_head(head, {.lr = 0});
  TrainStep fine_tune(used.net, steep_loss, of_head, scaler_at(4));
  EXPECT_FALSE(fine_tune(small_batch(1).images, small_batch(1).labels).skipped);
  TrainStep skipped(used.net, steep_loss, of_head, scaler_at(kHuge));
  EXPECT_TRUE(skipped(small_batch(1).images, small_batch(1).labels).skipped);
  for (const Tensor& param : used.net.parameters()) EXPECT_FALSE(param.grad().defined());
  steep_loss(used.net(small_batch(2).images), small_batch(2).labels).backward();
  fresh.net(small_batch(1).images);  // updates the running statistics
  fresh.net(small_batch(2).images);
  fresh(small_batch(3));
  used(small_batch(3));
  EXPECT_EQ(used.state(), fresh.state());
}

// Powers of two commute with everything: the scale leaves no trace, even if it grows.
TEST(TrainStep, ScalingChangesNoBit) {
  Training plain(no_scaler());
  Training scaled(GradScaler({.init_scale = 256, .growth_interval = 1}));
  for (std::uint64_t i = 0; i < 5; ++i) {
    plain(small_batch(i));
    scaled(small_batch(i));
  }
  EXPECT_EQ(scaled.step.scaler().get_scale(), 256 * 32);
  EXPECT_EQ(plain.state(), scaled.state());
}

TEST(TrainStep, AnOverflowChangesNothingAndShrinksTheScale) {
  Training training(scaler_at(4));
  training(small_batch(1));
  training.step.scaler().update(kHuge);
  const auto before = training.state();
  for (int i = 1; i <= 3; ++i) {
    const TrainStepResult result = training(small_batch(2));
    EXPECT_TRUE(result.overflow && result.skipped);
    EXPECT_EQ(result.skipped_in_a_row, i);
    EXPECT_EQ(result.scale, std::ldexp(kHuge, 1 - i));
    EXPECT_EQ(result.next_scale, std::ldexp(kHuge, -i));
    EXPECT_EQ(result.first_bad, "conv.weight");
    EXPECT_TRUE(std::isfinite(result.loss));
    EXPECT_EQ(training.state(), before);
    training.step.scaler().update(std::ldexp(kHuge, -i));
  }
  training.step.scaler().update(4);
  EXPECT_EQ(training(small_batch(3)).skipped_in_a_row, 0);
  EXPECT_NE(training.state(), before);
}

TEST(TrainStep, AnotherScalerIsCheckedByItsOwnRules) {
  Training training(no_scaler());
  training(small_batch(1));
  const auto before = training.state();
  training.step.scaler() = scaler_at(kHuge);
  const TrainStepResult result = training(small_batch(2));
  EXPECT_TRUE(result.skipped && result.overflow);
  EXPECT_TRUE(training.state() == before);
  training.step.scaler() = static_grad_scaler(8);
  EXPECT_FALSE(training(small_batch(3)).skipped);
}

TEST(TrainStep, AnotherScalerIsShownToTheStatistics) {
  SmallNet net;
  optim::Sgd optimizer(net.parameters(), {.lr = 0.1});
  GradientStatistics statistics(net, {.every = 1});
  TrainStep step(net, class_loss, optimizer, no_scaler(), {.statistics = &statistics});
  const Batch batch = small_batch(1);
  step(batch.images, batch.labels);
  step.scaler() = scaler_at(8);
  step(batch.images, batch.labels);
  EXPECT_EQ(statistics.counted_steps(), 2);
}

TEST(TrainStep, ASkippedStepUsesUpNoLearningRate) {
  Training training(scaler_at(4));
  training.optimizer.set_lr({0.01, 0.02, 0.03});
  training(small_batch(1));
  EXPECT_EQ(training.optimizer.lr(), 0.02);
  training.step.scaler().update(kHuge);
  EXPECT_TRUE(training(small_batch(2)).skipped);
  EXPECT_EQ(training.optimizer.lr(), 0.02);
  training.step.scaler().update(4);
  EXPECT_TRUE(training(with_nan(small_batch(2))).skipped);
  EXPECT_EQ(training.optimizer.lr(), 0.02);
  training(small_batch(2));
  EXPECT_EQ(training.optimizer.lr(), 0.03);
}

TEST(TrainStep, GoesOnCountingSkippedStepsWhereItIsTold) {
  Training training(scaler_at(kHuge));
  training.step.set_skipped_in_a_row(7);
  EXPECT_EQ(training(small_batch(1)).skipped_in_a_row, 8);
  EXPECT_EQ(training.step.skipped_in_a_row(), 8);
  EXPECT_THROW(training.step.set_skipped_in_a_row(-1), ArgumentError);
}

// Equal to the last bit, as if the skipped step had never happened.
TEST(TrainStep, TheFutureAfterASkippedStepIsTheSame) {
  Training with(scaler_at(4));
  Training without(scaler_at(4));
  for (std::uint64_t i = 0; i < 6; ++i) {
    if (i == 3) {
      with.step.scaler().update(kHuge);
      EXPECT_TRUE(with(small_batch(77)).skipped);
      with.step.scaler().update(4);
    }
    with(small_batch(i));
    without(small_batch(i));
  }
  EXPECT_EQ(with.state(), without.state());
}

TEST(TrainStep, BuffersKeepASkippedStepIfAsked) {
  Training training(scaler_at(kHuge), {.restore_buffers = false});
  const auto before = training.net.named_buffers()[0].tensor.to_vector<float>();
  EXPECT_TRUE(training(small_batch(1)).skipped);
  EXPECT_NE(training.net.named_buffers()[0].tensor.to_vector<float>(), before);
}

TEST(TrainStep, NaNInTheDataSkipsAndLeavesTheScaleAlone) {
  Training training(GradScaler({.init_scale = 4, .growth_interval = 3}));
  training(small_batch(1));
  const auto before = training.state();
  for (int i = 1; i <= 50; ++i) {
    const TrainStepResult result = training(with_nan(small_batch(2)));
    EXPECT_TRUE(result.nonfinite_loss && result.skipped && !result.overflow);
    EXPECT_EQ(result.skipped_in_a_row, i);
    EXPECT_EQ(result.next_scale, 4);
    EXPECT_TRUE(std::isnan(result.loss));
  }
  EXPECT_EQ(training.state(), before);
  EXPECT_EQ(training.step.scaler().state().growth_tracker(), 1);
}

TEST(TrainStep, NaNInTheDataShrinksTheScaleToTheFloorPyTorchsWay) {
  Training training(scaler_at(4), {.nonfinite_loss = NonfiniteLoss::kOverflow});
  const auto before = training.state();
  std::vector<double> scales;
  for (int i = 0; i < 4; ++i) {
    const TrainStepResult result = training(with_nan(small_batch(2)));
    EXPECT_TRUE(result.nonfinite_loss && result.skipped && result.overflow);
    scales.push_back(result.next_scale);
  }
  EXPECT_EQ(scales, (std::vector<double>{2, 1, 1, 1}));
  EXPECT_EQ(training.state(), before);
}

TEST(TrainStep, WithoutScalingANonfiniteLossSkipsToo) {
  Training training(no_scaler());
  const auto before = training.state();
  EXPECT_TRUE(training(with_nan(small_batch(2))).skipped);
  EXPECT_EQ(training.state(), before);
  EXPECT_FALSE(training(small_batch(2)).skipped);
}

TEST(TrainStep, NamesTheFirstBadParameter) {
  SmallNet net;
  optim::Adam optimizer(net.parameters());
  const auto loss = [&](const Tensor& logits, const Tensor& labels) {
    return cross_entropy(logits, labels) + sum(net.fc_bias() * 1e30) * 1e-10;
  };
  TrainStep step(net, loss, optimizer, scaler_at(0x1p70));
  const Batch batch = small_batch(1);
  const TrainStepResult result = step(batch.images, batch.labels);
  EXPECT_TRUE(result.skipped);
  EXPECT_EQ(result.first_bad, "fc.bias");
}

// mse over integers and powers of two is exact in f32, so parts and whole agree to the last bit.
struct Exact {
  explicit Exact(std::int64_t parts, GradScaler scaler)
      : step(initial(net), mse, optimizer, std::move(scaler), {.micro_batches = parts}) {}

  static Tensor mse(const Tensor& output, const Tensor& target) { return mse_loss(output, target); }
  static nn::Linear& initial(nn::Linear& net) {
    for (const Tensor& param : net.parameters()) fill(param, 1);
    return net;
  }
  static Tensor integers(const Shape& shape, int modulus) {
    std::vector<float> values;
    for (int i = 0; i < shape.numel(); ++i) values.push_back(static_cast<float>(i * 7 % modulus));
    return from_values(values, shape);
  }
  TrainStepResult operator()() { return step(integers({8, 4}, 5), integers({8, 2}, 3)); }

  nn::Linear net{4, 2};
  optim::Sgd optimizer{net.parameters(), {.lr = 0.125}};
  TrainStep step;
};

TEST(TrainStep, MicroBatchesEqualOneBigBatch) {
  Exact whole(1, no_scaler());
  const double loss = whole().loss;
  for (const std::int64_t parts : {2, 4, 8}) {
    Exact split(parts, GradScaler({.init_scale = 64, .growth_interval = 1}));
    const TrainStepResult result = split();
    EXPECT_EQ(result.loss, loss) << parts;
    EXPECT_EQ(result.next_scale, 128) << parts;  // one step for any number of parts
    EXPECT_EQ(everything(split.net, split.optimizer), everything(whole.net, whole.optimizer));
  }
}

// Gradients up to 16, with the rounding error of a division by 3 or 6 in each of 3 parts.
TEST(TrainStep, UnevenMicroBatchesAreWeighed) {
  Exact whole(1, no_scaler());
  Exact split(3, no_scaler());
  EXPECT_NEAR(split().loss, whole().loss, 16 * 6 * 0x1p-24);
  const auto a = whole.net.parameters()[0].to_vector<float>();
  const auto b = split.net.parameters()[0].to_vector<float>();
  for (std::size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], 16 * 6 * 0x1p-24) << i;
}

TEST(TrainStep, OneBadMicroBatchSkipsTheWholeStep) {
  Training training(scaler_at(4), {.micro_batches = 4});
  const auto before = training.state();
  EXPECT_TRUE(training(with_nan(small_batch(1), 5 * 64)).nonfinite_loss);
  EXPECT_EQ(training.state(), before);
  EXPECT_NO_THROW(training.step.scaler().update(8));  // no iteration is in progress
  EXPECT_FALSE(training(small_batch(1)).skipped);
}

TEST(TrainStep, TooFewExamplesForTheMicroBatches) {
  Training training(scaler_at(4), {.micro_batches = 4});
  EXPECT_THROW(training(small_batch(1, 3)), ArgumentError);
  for (const std::int64_t labels : {4, 16}) {
    EXPECT_THAT(message_of<ArgumentError>([&] {
                  training({small_batch(1, 8).images, small_batch(1, labels).labels});
                }),
                testing::HasSubstr(concat("labels 0 is i64[", labels, "] in a batch of 8")));
  }
}

TEST(TrainStep, PhasesTakeNoLongerThanTheStep) {
  Training training(scaler_at(4), {.micro_batches = 8});
  training(small_batch(1));
  const auto start = std::chrono::steady_clock::now();
  const TrainStepResult result = training(small_batch(2));
  const std::chrono::duration<double, std::milli> whole = std::chrono::steady_clock::now() - start;
  EXPECT_GT(result.total_ms(), 0);
  EXPECT_LE(result.total_ms(), whole.count());
}

// A gradient that is finite at a scale below 1 may overflow when unscaled.
TEST(TrainStep, AGradientThatOverflowsUnscaledIsSkipped) {
  Training training(GradScaler({.init_scale = 0x1p-20, .min_scale = 0x1p-20}), {},
                    [](const Tensor& logits, const Tensor& labels) {
                      const Tensor loss = class_loss(logits, labels);
                      return loss.detach() + (loss - loss.detach()) * 0x1p120 * 0x1p20;
                    });
  const auto before = training.state();
  const TrainStepResult result = training(small_batch(1));
  EXPECT_TRUE(result.skipped && result.overflow);
  EXPECT_EQ(training.state(), before);
}

TEST(TrainStep, ClippingActsOnTrueGradients) {
  Training plain(no_scaler(), {.max_grad_norm = 0.25});
  Training scaled(scaler_at(1024), {.max_grad_norm = 0.25});
  Training unclipped(no_scaler());
  const TrainStepResult a = plain(small_batch(1));
  const TrainStepResult b = scaled(small_batch(1));
  EXPECT_GT(*a.grad_norm, 0.25);
  EXPECT_EQ(a.grad_norm, b.grad_norm);
  EXPECT_EQ(plain.state(), scaled.state());
  EXPECT_FALSE(unclipped(small_batch(1)).grad_norm.has_value());
  EXPECT_NE(unclipped.state(), plain.state());
}

TEST(TrainStep, AnOverflowIsNotClippedIntoASteplet) {
  for (const bool scaled : {false, true}) {
    SmallNet net;
    optim::Adam optimizer(net.parameters());
    // A slope of 1e30, times a scale of 2^40 or another 1e20.
    const auto steep = [&](const Tensor& logits, const Tensor& labels) {
      const Tensor zero = net.fc_bias() - net.fc_bias().detach();
      return cross_entropy(logits, labels) + sum(zero * 1e30 * (scaled ? 1.0 : 1e20));
    };
    TrainStep step(net, steep, optimizer, scaled ? scaler_at(0x1p40) : no_scaler(),
                   {.max_grad_norm = 1});
    const auto before = everything(net, optimizer);
    const Batch batch = small_batch(1);
    const TrainStepResult result = step(batch.images, batch.labels);
    EXPECT_TRUE(result.skipped && result.overflow) << scaled;
    EXPECT_EQ(result.first_bad, "fc.bias") << scaled;
    EXPECT_EQ(everything(net, optimizer), before) << scaled;
    // Repeats this on the host, which counts gradients.
    GradientStatistics statistics(net, {.every = 1});
    TrainStep counted(net, steep, optimizer, scaled ? scaler_at(0x1p40) : no_scaler(),
                      {.max_grad_norm = 1, .statistics = &statistics});
    EXPECT_EQ(counted(batch.images, batch.labels).first_bad, "fc.bias") << scaled;
  }
}

// Unlike in MindSpore, the optimizer need not know the scale.
TEST(TrainStep, AManagerThatDropsNothingUnscalesAndNeverSkips) {
  Training plain(no_scaler());
  Training fixed(GradScaler(FixedLossScaleManager(512, false)));
  plain(small_batch(1));
  fixed(small_batch(1));
  EXPECT_EQ(plain.state(), fixed.state());
  const TrainStepResult result = fixed(with_nan(small_batch(1)));
  EXPECT_TRUE(result.nonfinite_loss);
  EXPECT_FALSE(result.skipped || result.overflow);
  EXPECT_EQ(result.next_scale, 512);
  EXPECT_TRUE(std::isnan(fixed.net.parameters()[0].to_vector<float>()[0]));
}

TEST(TrainStep, AnExceptionLeavesTheStateAndTheNextStepWhole) {
  Training interrupted(scaler_at(4));
  Training plain(scaler_at(4));
  Batch bad = small_batch(1);
  bad.labels = full({8}, 99, DType::kI64);
  const auto before = interrupted.state();
  EXPECT_THROW(interrupted(bad), ArgumentError);
  EXPECT_EQ(interrupted.state(), before);
  interrupted(small_batch(2));
  plain(small_batch(2));
  EXPECT_EQ(interrupted.state(), plain.state());
}

TEST(TrainStep, TheFloorThrowsAndNothingHasChanged) {
  Training training(
      GradScaler({.init_scale = kHuge, .min_scale = kHuge, .at_floor = AtFloor::kThrow}));
  const auto before = training.state();
  EXPECT_THROW(training(small_batch(1)), Error);
  EXPECT_EQ(training.state(), before);
  EXPECT_FALSE(training.net.parameters()[0].grad().defined());
}

TEST(TrainStep, RefusesOptionsThatMakeNoSense) {
  EXPECT_THROW(Training(no_scaler(), {.micro_batches = 0}), ArgumentError);
  EXPECT_THROW(Training(no_scaler(), {.max_grad_norm = 0}), ArgumentError);
  EXPECT_EQ(message_of<ArgumentError>([] { const Training training(no_scaler(), {}, nullptr); }),
            "[train_step] the loss function is null. Give one");
}

TEST(TrainStep, RefusesAnOptimizerOfNothing) {
  SmallNet net;
  optim::Sgd nothing(std::vector<Tensor>{}, {.lr = 0.1});
  TrainStep step(net, steep_loss, nothing, no_scaler());
  const Batch batch = small_batch(1);
  EXPECT_THAT(
      message_of<ArgumentError>([&] { step(batch.images, batch.labels); }),
      testing::HasSubstr("[train_step] the optimizer holds no parameters, and the network"));
}

TEST(TrainStep, RefusesLossesOfSeveralNumbers) {
  Training training(no_scaler(), {}, [](const Tensor& y, const Tensor&) { return y; });
  EXPECT_THAT(message_of<ArgumentError>([&] { training(small_batch(1)); }),
              testing::AllOf(testing::HasSubstr("[train_step] the loss has the shape ["),
                             testing::HasSubstr("Return its mean() or sum()")));
}

}  // namespace
}  // namespace mezzo::amp
