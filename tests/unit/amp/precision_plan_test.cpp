// Tests that a network computes as a precision plan says, eagerly and captured, and that plans that
// cannot be obeyed are refused.
#include "mezzo/amp/precision_plan.h"

#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mezzo/amp/module_precision.h"
#include "mezzo/amp/train_step.h"
#include "mezzo/core/random.h"
#include "mezzo/graph/train_step.h"
#include "mezzo/nn/conv.h"
#include "mezzo/nn/inference.h"
#include "mezzo/ops/exact_sums.h"
#include "mezzo/optim/sgd.h"
#include "tests/unit/amp/small_net.h"
#include "tests/unit/message_of.h"

namespace mezzo::amp {
namespace {

using testing::ElementsAre;

// A plan for a SmallNet: what is named has that dtype, all else is f32.
PrecisionPlan plan_with(const std::map<std::string, DType>& dtypes) {
  SmallNet net;
  const nn::Inference inference(net);
  const Tensor images = small_batch(1).images;
  PrecisionPlan plan;
  for (const PlannableCall& call : plannable_calls([&] { static_cast<void>(net(images)); })) {
    PlanRow row{.module = call.module, .op = call.op};
    const auto found = dtypes.find(row.text());
    if (found != dtypes.end()) row.dtype = found->second;
    plan.rows.push_back(row);
  }
  return plan;
}

// Notes the dtypes of the results of forward calls, without casts.
class ResultDTypes final : public StepObserver {
 public:
  bool begin_step(double /*scale*/) override { return true; }
  void on_call(const ObservedStepCall& call) override {
    for (std::size_t i = 0; i < call.results.size(); ++i) {
      const CallId& id = call.results[i].call;
      const bool counts = !id.is_backward() && call.results[i].output == 0 &&
                          call.op.view == nullptr && call.op.name != std::string_view("cast");
      if (counts) dtypes[id.text()] = call.outputs[i].dtype();
    }
  }

  std::map<std::string, DType> dtypes;
};

struct Steps {
  std::map<std::string, DType> dtypes;
  std::vector<std::vector<double>> everything;
};

// Trains a new network by the plan for a few steps.
Steps train(const PrecisionPlan& plan, bool is_captured, bool is_observed) {
  manual_seed(3);
  SmallNet net;
  optim::Sgd optimizer(net.parameters(), {.lr = 0.05, .momentum = 0.9});
  const Policy policy = apply_plan(net, plan);
  ResultDTypes observer;
  TrainStepOptions options{.policy = policy};
  if (is_observed) options.observers = {&observer};
  const bool is_scaled = has_narrow_range(policy.dtype());
  TrainStep step(net, class_loss, optimizer, GradScaler({}, is_scaled), options);
  if (is_captured) step.set_execution(graph::captured(net));
  for (std::uint64_t i = 0; i < 4; ++i) {
    const auto [images, labels] = small_batch(i);
    EXPECT_FALSE(step(images, labels).skipped);
  }
  return {observer.dtypes, everything(net, optimizer)};
}

const std::map<std::string, DType> kTwoDTypes{{"conv: conv2d", DType::kF16},
                                              {"fc: linear", DType::kBf16}};

TEST(PrecisionPlan, ANetworkComputesAsItSaysEagerlyAndCaptured) {
  const PrecisionPlan plan = plan_with(kTwoDTypes);
  ASSERT_EQ(plan.rows.size(), 4);
  const std::map<std::string, DType> wanted{{"conv: conv2d", DType::kF16},
                                            {"bn: batch_norm", DType::kF32},
                                            {"relu", DType::kF32},
                                            {"fc: linear", DType::kBf16},
                                            {"cross_entropy", DType::kF32}};
  for (const bool is_captured : {false, true}) {
    std::size_t seen = 0;
    for (const auto& [call, dtype] : train(plan, is_captured, true).dtypes) {
      const auto found = wanted.find(call);
      if (found == wanted.end()) continue;  // such as the loss times its scale
      EXPECT_EQ(dtype, found->second) << call;
      ++seen;
    }
    // A captured kernel that does several calls has only the result of the last.
    EXPECT_GE(seen, is_captured ? 3 : wanted.size());
  }
}

TEST(PrecisionPlan, CapturedStepsHaveTheSameBits) {
  for (const auto& dtypes :
       {kTwoDTypes,
        {},
        {{"bn: batch_norm", DType::kBf16}, {"relu", DType::kBf16}},
        {{"conv: conv2d", DType::kF16}, {"bn: batch_norm", DType::kF16}, {"relu", DType::kF16}}}) {
    const PrecisionPlan plan = plan_with(dtypes);
    EXPECT_EQ(train(plan, true, false).everything, train(plan, false, false).everything)
        << testing::PrintToString(dtypes);
  }
}

TEST(PrecisionPlan, AProductMayHaveEightBitsBesideTheOthers) {
  for (const Scaling scaling : kScalings) {
    PrecisionPlan plan = plan_with({{"fc: linear", DType::kE4m3}, {"relu", DType::kBf16}});
    plan.scaling = scaling;
    const std::map<std::string, DType> seen = train(plan, false, true).dtypes;
    EXPECT_EQ(seen.at("fc: scaled_matmul"), DType::kBf16);
    EXPECT_EQ(seen.at("conv: conv2d"), DType::kF32);
    EXPECT_FALSE(seen.contains("fc: linear"));
    EXPECT_EQ(train(plan, true, false).everything, train(plan, false, false).everything)
        << name_of(scaling);
  }
  EXPECT_EQ(plan_with({{"fc: linear", DType::kE4m3}}).policy().lower, DType::kBf16);
}

TEST(PrecisionPlan, AllInF32IsTheNetworkWithoutPrecision) {
  manual_seed(3);
  SmallNet net;
  optim::Sgd optimizer(net.parameters(), {.lr = 0.05, .momentum = 0.9});
  TrainStep step(net, class_loss, optimizer, GradScaler({}, false));
  for (std::uint64_t i = 0; i < 4; ++i) {
    const auto [images, labels] = small_batch(i);
    step(images, labels);
  }
  EXPECT_EQ(train(plan_with({}), false, false).everything, everything(net, optimizer));
}

TEST(PrecisionPlan, TheResultsOfTheNetworkAreF32) {
  SmallNet net;
  const nn::Inference inference(net);
  const Tensor images = small_batch(1).images;
  apply_plan(net, plan_with({{"fc: linear", DType::kF16}}));
  const Tensor logits = net(images);
  EXPECT_EQ(logits.dtype(), DType::kF32);
  EXPECT_EQ(logits.astype(DType::kF16).astype(DType::kF32).to_vector<float>(),
            logits.to_vector<float>());
}

std::vector<float> logits_of(SmallNet& net) {
  const nn::Inference inference(net);
  return net(small_batch(1).images).to_vector<float>();
}

TEST(PrecisionPlan, ReplacesAnEarlierPlanAndALevel) {
  SmallNet net;
  apply_plan(net, plan_with({{"fc: linear", DType::kF16}}));
  const std::vector<float> wanted = logits_of(net);
  apply_plan(net, plan_with({{"conv: conv2d", DType::kBf16}, {"relu", DType::kBf16}}));
  EXPECT_NE(logits_of(net), wanted);
  auto_mixed_precision(net, "O3", DType::kBf16, {.keep_float32 = {"conv"}});
  apply_plan(net, plan_with({{"fc: linear", DType::kF16}}));
  EXPECT_EQ(logits_of(net), wanted);
}

TEST(PrecisionPlan, ItsPolicyHasF16IfItHasBoth) {
  const auto policy_with = [](const std::map<std::string, DType>& dtypes) {
    return plan_with(dtypes).policy();
  };
  EXPECT_EQ(policy_with({}).level, Level::kO0);
  EXPECT_EQ(policy_with({{"relu", DType::kBf16}}).level, Level::kAuto);
  EXPECT_EQ(policy_with({{"relu", DType::kBf16}}).lower, DType::kBf16);
  EXPECT_EQ(policy_with({{"relu", DType::kF16}}).lower, DType::kF16);
  EXPECT_EQ(policy_with(kTwoDTypes).lower, DType::kF16);
  EXPECT_EQ(plan_with(kTwoDTypes).count(DType::kF32), 2);
  EXPECT_TRUE(plan_with(kTwoDTypes).has(DType::kBf16));
}

std::string refusal_of(const std::vector<PlanRow>& rows) {
  return message_of<ArgumentError>([&] { check_plan({.rows = rows}); });
}

TEST(PrecisionPlan, WhatNoNetworkCouldObeyIsRefused) {
  EXPECT_EQ(refusal_of({{.module = "conv", .op = "conv3d"}}),
            "[plan] `conv: conv3d`: there is no operation `conv3d`. `mezzo ops` lists them");
  EXPECT_EQ(refusal_of({{.module = "conv", .op = "conv2d", .dtype = DType::kI64}}),
            "[plan] `conv: conv2d` cannot be planned in i64. Use " + trainable_dtypes());
  EXPECT_EQ(refusal_of({{.op = "relu", .dtype = DType::kE4m3}}),
            "[plan] `relu` cannot be planned in e4m3. Only linear, matmul and conv2d, where its "
            "kernel is 1x1, have eight bits");
  EXPECT_EQ(refusal_of({{.op = "linear", .dtype = DType::kE5m2}}),
            "[plan] `linear` cannot be planned in e5m2. Use " + trainable_dtypes());
  EXPECT_EQ(refusal_of({{.module = "conv", .op = "conv2d"}, {.module = "conv", .op = "conv2d"}}),
            "[plan] `conv: conv2d` stands there twice. Remove one of the rows");
  EXPECT_EQ(
      refusal_of({{.op = "relu", .dtype = DType::kF16}, {.op = "tanh", .dtype = DType::kBf16}}),
      "[plan] `tanh` is in bf16, and another operation of that module in f16. A module has "
      "one 16-bit dtype: use one of the two");
  EXPECT_THAT(
      refusal_of({{.op = "binary_cross_entropy", .dtype = DType::kF16}}),
      testing::AllOf(testing::StartsWith("[plan] `binary_cross_entropy` is not safe in f16: "),
                     testing::EndsWith(". Plan it in f32")));
}

TEST(PrecisionPlan, OneForAnotherNetworkIsRefusedAndChangesNothing) {
  SmallNet net;
  const std::vector<float> before = logits_of(net);
  PrecisionPlan plan = plan_with(kTwoDTypes);
  plan.rows.push_back({.module = "head", .op = "linear", .dtype = DType::kF16});
  const std::string wanted =
      "[plan] the plan is for another network: it has `head: linear`, and this network has no "
      "module `head`. Make a plan for this network by `mezzo tune`";
  EXPECT_EQ(message_of<ArgumentError>([&] { apply_plan(net, plan); }), wanted);
  const Tensor images = small_batch(1).images;
  EXPECT_EQ(message_of<ArgumentError>([&] { check_plan_fits(net, plan, images); }), wanted);
  EXPECT_EQ(logits_of(net), before);
  plan.rows.pop_back();
  check_plan_fits(net, plan, images);
  std::erase_if(plan.rows, [](const PlanRow& row) { return row.module == "fc"; });
  EXPECT_EQ(message_of<ArgumentError>([&] { check_plan_fits(net, plan, images); }),
            "[plan] the plan is for another network: this one calls `fc: linear`, for which the "
            "plan has no row. Make a plan for this network by `mezzo tune`");
}

TEST(PrecisionPlan, PlannableCallsAreThoseOfModulesEachOnce) {
  SmallNet net;
  const auto [images, labels] = small_batch(1);
  const std::vector<PlannableCall> calls = plannable_calls([&, &images = images, &labels = labels] {
    for (int i = 0; i < 2; ++i) static_cast<void>(class_loss(net(images), labels));
  });
  EXPECT_THAT(calls, ElementsAre(PlannableCall{"conv", "conv2d"}, PlannableCall{"bn", "batch_norm"},
                                 PlannableCall{"", "relu"}, PlannableCall{"fc", "linear"}));
}

// A network that is a single layer has its rows itself.
TEST(PrecisionPlans, TheNetworksOwnConvolutionsAreDirectSumsToo) {
  manual_seed(3);
  nn::Conv2d net(64, 64, 3, {.padding = 1});
  const Tensor x = randn({2, 64, 16, 16});
  const std::vector<float> direct = [&] {
    const ExactSums exact;
    return net(x).to_vector<float>();
  }();
  apply_plan(net, {.rows = {{.op = "conv2d", .exact = true}}});
  EXPECT_EQ(net(x).to_vector<float>(), direct);
}

}  // namespace
}  // namespace mezzo::amp
