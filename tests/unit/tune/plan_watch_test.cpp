// Tests that the watch of a plan finds the operations that leave the range of f16, and only those.
#include "mezzo/tune/plan_watch.h"

#include <optional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mezzo/amp/train_step.h"
#include "mezzo/graph/train_step.h"
#include "mezzo/optim/sgd.h"
#include "tests/unit/message_of.h"
#include "tests/unit/numbers/faulty_nets.h"

namespace mezzo::tune {
namespace {

using amp::PrecisionPlan;
using numbers::Apply;
using numbers::FaultyNet;

PrecisionPlan plan_in(DType dtype) {
  PrecisionPlan plan;
  plan.rows = {{.module = "first", .op = "linear", .dtype = dtype},
               {.module = "middle", .op = "relu", .dtype = dtype},
               {.module = "last", .op = "linear", .dtype = dtype}};
  return plan;
}

// A network that trains by a plan, on batches that the test makes large or small.
struct Watched {
  Watched(const PrecisionPlan& plan, std::int64_t every, bool is_captured)
      : optimizer(net.parameters(), {.lr = 1e-6}), watch(plan, every) {
    const amp::Policy policy = apply_plan(net, plan);
    step.emplace(
        net, [](const Tensor& y, const Tensor& labels) { return cross_entropy(y, labels); },
        optimizer, amp::GradScaler({}, false),
        amp::TrainStepOptions{.policy = policy, .observers = {&watch}});
    if (is_captured) step->set_execution(graph::captured(net));
  }

  amp::TrainStepResult run(double factor = 1) {
    Generator generator(2);
    return (*step)(randn({6, 4}, generator) * factor,
                   from_values<std::int64_t>({0, 1, 2, 0, 1, 2}, {6}));
  }

  std::vector<std::string> found() {
    std::vector<std::string> texts;
    for (const RangeFinding& finding : watch.take_findings()) {
      texts.push_back(finding.module + ": " + finding.op + ": " + finding.reason);
    }
    return texts;
  }

  FaultyNet net{[](const Tensor& x) { return relu(x); }};
  optim::Sgd optimizer;
  PlanWatch watch;
  std::optional<amp::TrainStep> step;
};

class PlanWatchIn : public testing::TestWithParam<bool> {};  // whether steps are captured

TEST_P(PlanWatchIn, FindsNothingWhereNumbersFit) {
  Watched watched(plan_in(DType::kF16), 1, GetParam());
  for (int i = 0; i < 3; ++i) watched.run();
  EXPECT_EQ(watched.watch.looks(), 3);
  EXPECT_THAT(watched.found(), testing::IsEmpty());
}

TEST_P(PlanWatchIn, FindsTheOperationWhoseResultsAreTooLargeAndNotThoseAfterIt) {
  Watched watched(plan_in(DType::kF16), 1, GetParam());
  EXPECT_TRUE(watched.run(5e4).skipped);
  const std::vector<std::string> found = watched.found();
  ASSERT_EQ(found.size(), 1) << testing::PrintToString(found);
  EXPECT_THAT(found[0], testing::MatchesRegex(
                            "first: linear: at step 1 [0-9.]+ % of its results were too large for "
                            "f16, and none when the plan was made"));
  EXPECT_THAT(watched.found(), testing::IsEmpty()) << "they are taken once";
}

TEST_P(PlanWatchIn, AnInfinityThatACastMadeIsTheOperationsOwn) {
  Watched watched(plan_in(DType::kF16), 1, GetParam());
  EXPECT_TRUE(watched.run(1e6).skipped);
  EXPECT_THAT(watched.found(), testing::ElementsAre(testing::StartsWith("first: linear: ")));
}

TEST_P(PlanWatchIn, ABatchThatIsNotFiniteIsNobodysFault) {
  Watched watched(plan_in(DType::kF16), 1, GetParam());
  EXPECT_TRUE(watched.run(INFINITY).skipped);
  EXPECT_THAT(watched.found(), testing::IsEmpty());
}

TEST_P(PlanWatchIn, FindsResultsThatAreTooSmall) {
  PrecisionPlan plan = plan_in(DType::kF16);
  plan.rows[0].lost = 0.5;
  Watched watched(plan, 1, GetParam());
  for (const Tensor& bias : {watched.net.named_parameters()[1].tensor}) {
    copy_elements(zeros(bias.shape()), bias);
  }
  watched.run(1e-5);
  EXPECT_THAT(watched.found(),
              testing::ElementsAre(
                  testing::MatchesRegex("first: linear: at step 1 [0-9.e+]+ % of its results were "
                                        "too small for f16, and 50 % when the plan was made"),
                  testing::MatchesRegex("middle: relu: at step 1 [0-9.e+]+ % of its results were "
                                        "too small for f16, and none when the plan was made")));
  plan.rows[0].lost = plan.rows[1].lost = 1;
  watched.watch.set_plan(plan);
  watched.run(1e-5);
  EXPECT_THAT(watched.found(), testing::IsEmpty()) << "as when the plan was made";
}

TEST_P(PlanWatchIn, LooksAtEverySoManyStepsAndAfterASkippedOne) {
  Watched watched(plan_in(DType::kF16), 3, GetParam());
  const auto looks_after = [&](double factor) {
    watched.run(factor);
    return watched.watch.looks();
  };
  EXPECT_EQ(looks_after(1), 0);
  EXPECT_EQ(looks_after(1), 0);
  EXPECT_EQ(looks_after(1), 1);
  EXPECT_EQ(looks_after(1), 1);
  EXPECT_EQ(looks_after(5e4), 2) << "its loss was not finite: the same step once more";
  EXPECT_EQ(watched.found().size(), 1);
  EXPECT_EQ(looks_after(1), 3) << "both due and after a skipped one";
  EXPECT_EQ(looks_after(1), 3);
  watched.watch.set_steps_before(10, true);
  EXPECT_EQ(looks_after(1), 4) << "the last one of an earlier part was skipped";
  EXPECT_EQ(looks_after(1), 5) << "step 12";
}

TEST_P(PlanWatchIn, LookingChangesNothing) {
  Watched one(plan_in(DType::kF16), 1, GetParam());
  Watched other(plan_in(DType::kF16), 1000, GetParam());
  for (int i = 0; i < 3; ++i) EXPECT_EQ(one.run().loss, other.run().loss);
  for (std::size_t i = 0; i < one.net.parameters().size(); ++i) {
    EXPECT_EQ(one.net.parameters()[i].to_vector<float>(),
              other.net.parameters()[i].to_vector<float>());
  }
  EXPECT_EQ(other.watch.looks(), 0);
}

INSTANTIATE_TEST_SUITE_P(Modes, PlanWatchIn, testing::Bool());

TEST(PlanWatch, WhatHasTheRangeOfF32IsNotLookedAt) {
  for (const DType dtype : {DType::kF32, DType::kBf16}) {
    Watched watched(plan_in(dtype), 1, false);
    watched.run(1e38);
    EXPECT_EQ(watched.watch.looks(), 0);
    EXPECT_THAT(watched.found(), testing::IsEmpty());
  }
}

TEST(PlanWatch, WideningPutsTheOperationIntoF32AndSaysWhy) {
  const RangeFinding finding{.module = "middle", .op = "relu", .reason = "it was too small"};
  const PrecisionPlan plan = widened(plan_in(DType::kF16), finding);
  EXPECT_EQ(plan.count(DType::kF32), 1);
  EXPECT_EQ(plan.find("middle", "relu")->dtype, DType::kF32);
  EXPECT_EQ(plan.find("middle", "relu")->reason, "it was too small");
  EXPECT_EQ(message_of<ArgumentError>([&] { widened(plan, {.module = "none", .op = "relu"}); }),
            "[plan_watch] the plan has no row for `relu` of `none`");
  EXPECT_EQ(message_of<ArgumentError>([&] { PlanWatch(plan, 0); }),
            "[plan_watch] the number of steps between looks must be at least 1: 0");
}

TEST(PlanWatch, AWidenedNetworkGoesOn) {
  for (const bool is_captured : {false, true}) {
    PrecisionPlan plan = plan_in(DType::kF16);
    Watched watched(plan, 100, is_captured);
    int steps = 0;
    while (watched.run(5e4).skipped && ++steps < 5) {
      for (const RangeFinding& finding : watched.watch.take_findings()) {
        plan = widened(plan, finding);
      }
      apply_plan(watched.net, plan);
      watched.watch.set_plan(plan);
      if (is_captured) watched.step->set_execution(graph::captured(watched.net));
    }
    EXPECT_LT(steps, 4);
    EXPECT_EQ(plan.find("first", "linear")->dtype, DType::kF32);
  }
}

}  // namespace
}  // namespace mezzo::tune
