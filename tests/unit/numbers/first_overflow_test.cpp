// Tests that the call in which the first overflow began is named, with its cause.
#include "mezzo/numbers/first_overflow.h"

#include <optional>
#include <tuple>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mezzo/amp/half_parameters.h"
#include "mezzo/amp/train_step.h"
#include "mezzo/graph/train_step.h"
#include "mezzo/optim/sgd.h"
#include "tests/unit/numbers/faulty_nets.h"

namespace mezzo::numbers {
namespace {

using testing::HasSubstr;

// A network, its training, and what is found in it.
struct Watched {
  Watched(FaultyNet& network, bool is_captured, double lr, const amp::Policy& policy)
      : net(network), optimizer(net.parameters(), {.lr = lr}), overflow(net, {}) {
    step.emplace(
        net, [](const Tensor& y, const Tensor& labels) { return cross_entropy(y, labels); },
        optimizer, amp::GradScaler({}, false),
        amp::TrainStepOptions{.policy = policy, .check_gradients = true, .observers = {&overflow}});
    if (is_captured) step->set_execution(graph::captured(net));
  }

  amp::TrainStepResult run(float first_element) {
    Generator generator(2);
    const Tensor x = randn({6, 4}, generator);
    x.mutable_data<float>()[0] = first_element;
    return (*step)(x, from_values<std::int64_t>({0, 1, 2, 0, 1, 2}, {6}));
  }

  FaultyNet& net;
  optim::Sgd optimizer;
  FirstOverflow overflow;
  std::optional<amp::TrainStep> step;
};

const amp::Policy kF32{.level = amp::Level::kO0};

class PlantedFault : public testing::TestWithParam<std::tuple<std::size_t, bool>> {};

TEST_P(PlantedFault, IsNamedWithItsCallAndCause) {
  const auto [number, is_captured] = GetParam();
  const Fault fault = faults()[number];
  FaultyNet net(fault.middle);
  Watched watched(net, is_captured, fault.lr, kF32);
  net.first_weight().mutable_data<float>()[0] = static_cast<float>(fault.first_weight);
  constexpr int kSteps = 20;
  bool is_skipped = false;
  for (int i = 0; i < kSteps && !is_skipped; ++i)
    is_skipped = watched.run(fault.first_element).skipped;
  ASSERT_TRUE(is_skipped);
  ASSERT_EQ(watched.overflow.findings().size(), 1);
  const OverflowFinding& found = watched.overflow.findings()[0];
  SCOPED_TRACE(found.text());
  EXPECT_EQ(found.cause.kind, fault.kind);
  EXPECT_THAT(found.text(), testing::StartsWith("first overflow: " + fault.path));
  EXPECT_THAT(found.text(), HasSubstr(fault.says));
  EXPECT_THAT(found.call.op, testing::StartsWith(fault.op));
  if (fault.kind == OverflowKind::kGrownWeights) return;  // any call may be the first
  EXPECT_EQ(found.call.path, fault.path);
  EXPECT_EQ(found.call.is_backward(), fault.is_backward);
}

INSTANTIATE_TEST_SUITE_P(All, PlantedFault,
                         testing::Combine(testing::Range<std::size_t>(0, faults().size()),
                                          testing::Bool()),
                         [](const auto& instance) {
                           return faults()[std::get<0>(instance.param)].name +
                                  (std::get<1>(instance.param) ? "Captured" : "Eager");
                         });

// Adam's usual eps of 1e-8 is 0 in f16: a user who writes the update in the dtype of the parameters
// divides 0 by 0, and the next step reads the spoilt weight.
TEST(FirstOverflow, AWeightThatAnUpdateHasSpoiltIsNamed) {
  FaultyNet net(same);
  Watched watched(net, false, 0.01, kF32);
  EXPECT_FALSE(watched.run(0.5F).skipped);
  const Tensor eps = full({}, 1e-8, DType::kF16);
  const Tensor moment = zeros({}, DType::kF16);
  const Tensor update = moment / (sqrt(moment) + eps);
  net.first_weight().mutable_data<float>()[3] = static_cast<float>(update.item());
  EXPECT_TRUE(watched.run(0.5F).skipped);
  const OverflowFinding& found = watched.overflow.findings().at(0);
  EXPECT_EQ(found.step, 2);
  EXPECT_EQ(found.cause.kind, OverflowKind::kWeight);
  EXPECT_THAT(found.text(), HasSubstr("the parameter first.weight"));
  EXPECT_THAT(found.text(), HasSubstr("1 of 32 is NaN"));
}

// A mask of infinities is absorbed by the softmax, and is not what went wrong.
TEST(FirstOverflow, AnInfinityThatIsAbsorbedIsNotTheCause) {
  FaultyNet net([](const Tensor& x) {
    const Tensor mask = from_values<float>({0, 1, 0, 0, 0, 0, 0, 0}, {8}).astype(DType::kBool);
    const Tensor masked = masked_fill(x, mask, -std::numeric_limits<double>::infinity());
    const Tensor attended = softmax(masked, -1);
    return exp(attended * 0 + 100);
  });
  Watched watched(net, false, 0.01, kF32);
  EXPECT_TRUE(watched.run(0.5F).skipped);
  const OverflowFinding& found = watched.overflow.findings().at(0);
  EXPECT_EQ(found.call.op, "exp") << found.text();
}

TEST(FirstOverflow, AStepThatIsNotSkippedIsNotLookedAt) {
  FaultyNet net(same);
  Watched watched(net, false, 0.01, kF32);
  EXPECT_FALSE(watched.run(0.5F).skipped);
  EXPECT_TRUE(watched.overflow.findings().empty());
}

TEST(FirstOverflow, FindsTheSameOnceAndStopsAfterSoManySteps) {
  FaultyNet net(same);
  std::int64_t told = 0;
  FirstOverflow overflow(net, {.on_found = [&](const OverflowFinding&) { ++told; }, .most = 2});
  optim::Sgd optimizer(net.parameters(), {.lr = 0.01});
  amp::TrainStep step(
      net, [](const Tensor& y, const Tensor& labels) { return cross_entropy(y, labels); },
      optimizer, amp::GradScaler({}, false), {.observers = {&overflow}});
  overflow.set_steps_before(10);
  const Tensor bad = full({3, 4}, std::nan(""));
  for (int i = 0; i < 5; ++i) step(bad, from_values<std::int64_t>({0, 1, 2}, {3}));
  EXPECT_EQ(told, 1);
  EXPECT_EQ(overflow.findings().at(0).step, 11);
  // Another fault, in the third skipped step or later, is not looked at any more.
  net.first_weight().mutable_data<float>()[0] = std::numeric_limits<float>::infinity();
  step(full({3, 4}, 1), from_values<std::int64_t>({0, 1, 2}, {3}));
  EXPECT_EQ(told, 1);
}

TEST(FirstOverflow, GradientsBeyondF16AreTheLossScales) {
  FaultyNet net(in(DType::kF16, [](const Tensor& x) { return x * 2; }));
  FirstOverflow overflow(net, {.is_scale_dynamic = true});
  optim::Sgd optimizer(net.parameters(), {.lr = 0.01});
  amp::TrainStep step(
      net, [](const Tensor& y, const Tensor& labels) { return cross_entropy(y, labels); },
      optimizer, amp::GradScaler({.init_scale = 0x1p24}), {.observers = {&overflow}});
  Generator generator(2);
  EXPECT_TRUE(step(randn({3, 4}, generator), from_values<std::int64_t>({0, 1, 2}, {3})).skipped);
  const OverflowFinding& found = overflow.findings().at(0);
  EXPECT_EQ(found.cause.kind, OverflowKind::kLossScale) << found.text();
  EXPECT_EQ(found.scale, 0x1p24);
  EXPECT_TRUE(found.call.is_backward());
  EXPECT_THAT(found.text(), HasSubstr("shrinks by itself"));
}

}  // namespace
}  // namespace mezzo::numbers
