#include "mezzo/amp/gradient_statistics.h"

#include <limits>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mezzo/amp/autocast.h"
#include "mezzo/amp/grad_scaler.h"
#include "mezzo/core/error.h"
#include "mezzo/core/random.h"
#include "mezzo/models/model.h"
#include "mezzo/ops/arithmetic.h"
#include "mezzo/ops/cast.h"
#include "mezzo/ops/reduce.h"
#include "mezzo/ops/update/multi_tensor.h"
#include "mezzo/optim/gradients.h"
#include "mezzo/optim/sgd.h"
#include "tests/unit/nn/example_net.h"
#include "tests/unit/special_values.h"

namespace mezzo::amp {
namespace {

using testing::ElementsAre;

ExponentCounts counts_of(const Tensor& tensor, float factor = 1) {
  const Tensor flat = contiguous(tensor);
  return count_exponents({&flat, 1}, factor).front();
}

// Runs one backward pass of sum(net(x)) * scale in a step that has begun.
void run_step(nn::Module& net, GradientStatistics& statistics, double scale = 1) {
  statistics.begin_step(scale);
  (sum(net(from_values({1.0F, -0.25F}, {2}))) * scale).backward();
}

TEST(GradientStatistics, CountsTheTrueGradientsOfEveryParameter) {
  nn::ExampleNet net;
  GradientStatistics statistics(net, {});
  EXPECT_THAT(nn::names_of(statistics.total()),
              ElementsAre("stem.weight", "body.shift", "body.first.weight", "body.second.weight"));
  run_step(net, statistics, 1024);
  EXPECT_EQ(statistics.count(net.parameters(), 1.0 / 1024), std::nullopt);
  const auto parameters = net.parameters();
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const GradientHistogram& histogram = statistics.latest()[i];
    EXPECT_EQ(histogram.counts, counts_of(parameters[i].grad(), 1.0F / 1024)) << histogram.name;
    EXPECT_EQ(histogram.shape, Shape{2});
    EXPECT_EQ(histogram.passes, 1);
  }
  EXPECT_EQ(statistics.latest()[1].counts.at(0), 2);  // d(sum)/d(shift) = 1
}

TEST(GradientStatistics, KeepsTheLatestAndTheSum) {
  nn::ExampleNet net;
  GradientStatistics statistics(net, {.every = 1});
  for (int i = 0; i < 3; ++i) {
    run_step(net, statistics);
    statistics.count(net.parameters(), 1);
    net.zero_grad();
  }
  EXPECT_EQ(statistics.counted_steps(), 3);
  EXPECT_EQ(statistics.latest()[0].counts.total(), 2);
  EXPECT_EQ(statistics.total()[0].counts.total(), 6);
  EXPECT_EQ(statistics.total()[0].passes, 3);
}

// For example, the gradients of two optimizers are counted one after the other.
TEST(GradientStatistics, AStepThatIsCountedInPartsIsOne) {
  nn::ExampleNet net;
  GradientStatistics statistics(net, {.every = 1});
  for (int step = 1; step <= 2; ++step) {
    run_step(net, statistics);
    for (const Tensor& param : net.parameters()) statistics.count(std::vector<Tensor>{param}, 1);
    EXPECT_EQ(statistics.counted_steps(), step);
    EXPECT_EQ(statistics.latest()[3].passes, 1);
    net.zero_grad();
  }
}

TEST(GradientStatistics, IsDueEverySoManySteps) {
  nn::ExampleNet net;
  GradientStatistics statistics(net, {.every = 3});
  EXPECT_FALSE(statistics.is_due());
  std::string due;
  for (int i = 0; i < 7; ++i) {
    statistics.begin_step(1);
    due += statistics.is_due() ? 'x' : '.';
  }
  EXPECT_EQ(due, "x..x..x");
  EXPECT_THROW(GradientStatistics(net, {.every = 0}), ArgumentError);
  EXPECT_THROW(statistics.begin_step(0), ArgumentError);
}

TEST(GradientStatistics, AnswersWhetherTheGradientsAreFinite) {
  nn::ExampleNet net;
  GradientStatistics statistics(net, {});
  run_step(net, statistics);
  const std::vector<Tensor> parameters = net.parameters();
  parameters[2].set_grad(from_values({1.0F, kInf}, {2}));
  parameters[3].set_grad(from_values({std::numeric_limits<float>::quiet_NaN(), 1.0F}, {2}));
  EXPECT_EQ(statistics.count(parameters, 1), 2U);
  EXPECT_EQ(statistics.latest()[2].counts.infinities(), 1);
  EXPECT_EQ(statistics.latest()[3].counts.nans(), 1);
}

TEST(GradientStatistics, ParametersOfOthersAreCheckedButNotCounted) {
  nn::ExampleNet net;
  GradientStatistics statistics(net, {});
  statistics.begin_step(1);
  const Tensor stranger = ones({2}).set_requires_grad(true);
  stranger.set_grad(from_values({1.0F, kInf}, {2}));
  EXPECT_EQ(statistics.count({{net.stem.parameters().front(), stranger}}, 1), 1U);
  EXPECT_EQ(sum_of(statistics.total(), "all").counts.total(), 0);
}

TEST(GradientStatistics, GradientsThatAreNotDenseAreCountedOnce) {
  nn::ExampleNet net;
  GradientStatistics statistics(net, {});
  statistics.begin_step(1);
  const Tensor pairs = from_values({1.0F, 100.0F, 2.0F, 100.0F}, {4});
  const Tensor weight = net.stem.parameters().front();
  weight.set_grad(alias(pairs, {2}, {2}, 0));
  statistics.count({&weight, 1}, 1);
  EXPECT_EQ(statistics.latest()[0].counts, counts_of(from_values({1.0F, 2.0F}, {2})));
}

TEST(GradientStatistics, CountsWhatFlowsIntoModulesWithoutChildren) {
  nn::ExampleNet net;
  GradientStatistics statistics(net, {.activations = true});
  EXPECT_THAT(nn::names_of(statistics.total_activations()),
              ElementsAre("stem", "body.first", "body.second"));
  run_step(net, statistics, 8);
  // y = x * 1 * 2 * 3 + 1: the gradients of the outputs of `second`, `first` and `stem` are 1, 3
  // and 6.
  EXPECT_EQ(statistics.latest_activations()[2].counts.at(0), 2);
  EXPECT_EQ(statistics.latest_activations()[1].counts.at(1), 2);
  EXPECT_EQ(statistics.latest_activations()[0].counts.at(2), 2);
  EXPECT_EQ(statistics.latest_activations()[0].shape, Shape{2});
  EXPECT_EQ(statistics.total_activations()[0].passes, 1);
}

TEST(GradientStatistics, WatchesModulesOnlyInStepsThatCountAndWhileItIsThere) {
  nn::ExampleNet net;
  {
    GradientStatistics statistics(net, {.every = 2, .activations = true});
    EXPECT_EQ(net.stem.forward_hooks().size(), 1U);
    EXPECT_EQ(net.body.forward_hooks().size(), 0U);
    for (int i = 0; i < 4; ++i) run_step(net, statistics);
    EXPECT_EQ(statistics.total_activations()[0].passes, 2);
  }
  EXPECT_EQ(net.stem.forward_hooks().size(), 0U);
}

std::vector<Tensor> gradients_of(nn::Module& net, const Tensor& images, const Policy& policy) {
  net.zero_grad();
  const Autocast region(policy);
  sum(net(images).astype(DType::kF32)).backward();
  std::vector<Tensor> gradients;
  for (const Tensor& parameter : net.parameters()) gradients.push_back(parameter.grad());
  return gradients;
}

// Two parameters with known gradients, d(loss)/da = factor and d(loss)/db = 2 * factor.
class TwoParameters : public nn::Module {
 public:
  TwoParameters() {
    add_parameter("a", a);
    add_parameter("b", b);
  }
  Tensor forward(const Tensor& factor) override { return sum(a * factor) + sum(b * factor) * 2; }

  Tensor a = ones({2}).set_requires_grad(true);
  Tensor b = ones({1}).set_requires_grad(true);
  optim::Sgd optimizer{{a, b}, {.lr = 0.5}};
};

// Runs one iteration with these gradients; unscaled gradients are counted.
StepResult run_iteration(TwoParameters& net, GradientStatistics& statistics, GradScaler& scaler,
                         float factor = 0.25F) {
  statistics.begin_step(scaler.get_scale());
  scaler.scale(net(from_values({factor}, {1}))).backward();
  const StepResult result = scaler.step(net.optimizer);
  scaler.update();
  net.optimizer.zero_grad();
  return result;
}

TEST(ScalerWithStatistics, CountsTrueGradientsInPlaceOfTheCheck) {
  for (const double scale : {65536.0, 0.25}) {  // checked with the update, or before it
    TwoParameters net;
    GradientStatistics statistics(net, {.every = 2});
    GradScaler scaler({.init_scale = scale, .min_scale = 0x1p-10});
    scaler.set_statistics(&statistics);
    for (int i = 0; i < 4; ++i) EXPECT_TRUE(run_iteration(net, statistics, scaler).stepped);
    EXPECT_EQ(statistics.counted_steps(), 2);
    EXPECT_EQ(statistics.total()[0].counts.at(-2), 4) << scale;  // 0.25, twice in two steps
    EXPECT_EQ(statistics.total()[1].counts.at(-1), 2) << scale;
    EXPECT_EQ(net.b.to_vector<float>(), std::vector<float>{1 - 4 * 0.5F * 0.5F});
  }
}

TEST(ScalerWithStatistics, SkipsTheSameStepsAsWithout) {
  for (const float factor : {1.0F, 0x1p111F, 0x1p112F, kInf}) {
    TwoParameters watched;
    TwoParameters plain;
    GradientStatistics statistics(watched, {.every = 1});
    GradScaler scaler;
    GradScaler blind;
    scaler.set_statistics(&statistics);
    GradientStatistics idle(plain, {.every = 1});
    const StepResult expected = run_iteration(plain, idle, blind, factor);
    const StepResult result = run_iteration(watched, statistics, scaler, factor);
    EXPECT_EQ(result.stepped, expected.stepped) << factor;
    EXPECT_EQ(result.first_bad, expected.first_bad) << factor;
    EXPECT_EQ(scaler.get_scale(), blind.get_scale()) << factor;
    EXPECT_EQ(watched.a.to_vector<float>(), plain.a.to_vector<float>()) << factor;
    EXPECT_EQ(sum_of(idle.total(), "all").counts.total(), 0);
  }
}

TEST(ScalerWithStatistics, ADisabledOneCountsToo) {
  TwoParameters net;
  GradientStatistics statistics(net, {.every = 1});
  GradScaler scaler({}, false);
  scaler.set_statistics(&statistics);
  EXPECT_TRUE(run_iteration(net, statistics, scaler).stepped);
  EXPECT_EQ(statistics.total()[0].counts.at(-2), 2);
  EXPECT_EQ(statistics.counted_steps(), 1);
}

TEST(ScalerWithStatistics, GradientsAreCountedBeforeTheyAreClippedAndOnce) {
  for (const bool enabled : {true, false}) {
    TwoParameters net;
    GradientStatistics statistics(net, {.every = 1});
    GradScaler scaler({}, enabled);
    scaler.set_statistics(&statistics);
    statistics.begin_step(scaler.get_scale());
    scaler.scale(net(from_values({0.25F}, {1}))).backward();
    scaler.unscale_(net.optimizer);
    optim::clip_grad_value(net.optimizer.params(), 0x1p-10);
    scaler.step(net.optimizer);
    EXPECT_EQ(statistics.total()[0].counts.at(-2), 2) << enabled;
    EXPECT_EQ(statistics.total()[0].counts.total(), 2) << enabled;
  }
}

// Observing changes no bit of any gradient, in any precision.
TEST(GradientStatistics, ChangesNothing) {
  manual_seed(3);
  const auto net = models::create("lenet5", models::usual_config("lenet5"));
  const Tensor images = randn({4, 1, 28, 28});
  for (const Level level : {Level::kO0, Level::kO2}) {
    const Policy policy{level, DType::kF16};
    const std::vector<Tensor> plain = gradients_of(*net, images, policy);
    GradientStatistics statistics(*net, {.activations = true});
    statistics.begin_step(1);
    const std::vector<Tensor> watched = gradients_of(*net, images, policy);
    statistics.count(net->parameters(), 1);
    for (std::size_t i = 0; i < plain.size(); ++i) {
      EXPECT_EQ(plain[i].to_vector<float>(), watched[i].to_vector<float>()) << i;
    }
    for (const GradientHistogram& histogram : statistics.total_activations()) {
      EXPECT_GT(histogram.counts.finite_nonzero(), 0) << histogram.name;
    }
  }
}

}  // namespace
}  // namespace mezzo::amp
