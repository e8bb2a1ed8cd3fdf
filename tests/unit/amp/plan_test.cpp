#include "mezzo/amp/plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mezzo/amp/autocast.h"
#include "mezzo/amp/module_precision.h"
#include "mezzo/models/lenet5.h"
#include "mezzo/models/model.h"
#include "mezzo/nn/batch_norm.h"
#include "mezzo/nn/embedding.h"
#include "mezzo/nn/linear.h"
#include "mezzo/ops/dispatcher/call.h"
#include "mezzo/ops/dispatcher/registry.h"
#include "mezzo/ops/matmul.h"
#include "mezzo/ops/pointwise.h"
#include "mezzo/ops/relu.h"

namespace mezzo::amp {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;

std::vector<std::string> lines_of(const Plan& plan) {
  std::vector<std::string> lines;
  for (const PlannedOp& op : plan.ops) {
    lines.push_back(concat(op.path, " ", op.op, " ", op.dtype, " ", op.rule));
  }
  return lines;
}

const Shape kImage{1, 1, 28, 28};

TEST(Plan, OfLeNet5NamesEveryOpItsModuleAndItsRule) {
  const auto net = models::create("lenet5", models::usual_config("lenet5"));
  const Plan plan = make_plan(*net, kImage, {.level = Level::kO2, .lower = DType::kBf16});
  ASSERT_FALSE(plan.ops.empty());
  EXPECT_EQ(plan.ops.front().path, "conv1");
  EXPECT_EQ(plan.ops.front().op, "conv2d");
  EXPECT_EQ(plan.ops.front().dtype, DType::kBf16);
  EXPECT_EQ(plan.ops.front().rule, "lower");
  EXPECT_EQ(describe_casts(plan.ops.front()), "x0 f32>bf16, x1 f32>bf16 (parameter)");
  EXPECT_EQ(plan.ops.back().op, "cross_entropy");
  EXPECT_EQ(plan.ops.back().dtype, DType::kF32);
  EXPECT_THAT(plan.ops.back().reason, HasSubstr("outside mixed precision"));
}

TEST(Plan, AtO0NothingIsCast) {
  const auto net = models::create("lenet5", models::usual_config("lenet5"));
  const Plan plan = make_plan(*net, kImage, {.level = Level::kO0});
  EXPECT_EQ(plan.casts, 0);
  EXPECT_EQ(plan.avoided_casts, 0);
  EXPECT_EQ(plan.count(DType::kF32), static_cast<std::int64_t>(plan.ops.size()));
}

TEST(Plan, TakesAnInputThatIsNotF32) {
  class Tokens final : public nn::Module {
   public:
    Tokens() { add("embedding", embedding_), add("fc", fc_); }
    Tensor forward(const Tensor& x) override { return fc_(embedding_(x)); }

   private:
    nn::Embedding embedding_{5, 4};
    nn::Linear fc_{4, 5};
  } net;
  const Plan plan = make_plan(net, zeros({2}, DType::kI64), Policy{.lower = DType::kBf16});
  EXPECT_THAT(lines_of(plan), Contains(testing::HasSubstr("linear bf16")));
}

TEST(Plan, CountsWhatIsCastSharedAndAvoided) {
  const Tensor weight = full({4, 4}, 1).set_requires_grad(true);
  const Tensor x = full({2, 4}, 1);
  const Plan plan = make_plan([&] {
    const Autocast region(DType::kF16);
    const Tensor y = matmul(x, weight);  // x and the weight are cast
    const Tensor z = matmul(y, weight);  // y is f16 already, and the weight's copy exists
    exp(relu(z));                        // cast back to f32
    x.astype(DType::kF16);               // by hand
  });
  EXPECT_THAT(lines_of(plan),
              ElementsAre(" matmul f16 lower", " matmul f16 lower", " relu f16 follow",
                          " exp f32 float32", " cast f32 follow"));
  EXPECT_EQ(plan.casts, 4);
  EXPECT_EQ(plan.shared_casts, 1);
  EXPECT_EQ(plan.avoided_casts, 1);
  EXPECT_EQ(describe_casts(plan.ops[1]), "x1 f32>f16 (parameter, shared)");
}

TEST(Plan, ParametersInOneBlockAreCastEachAndThoseIn16BitsAvoidNothing) {
  const Tensor block = full({2, 4, 4}, 1);
  const auto part = [&](std::int64_t i) {
    return alias(block, {4, 4}, {4, 1}, 16 * i).set_requires_grad(true);
  };
  const Tensor first = part(0);
  const Tensor second = part(1);
  const Tensor half = full({4, 4}, 1, DType::kF16).set_requires_grad(true);
  const Tensor x = full({2, 4}, 1);
  const Plan plan = make_plan([&] {
    const Autocast region(DType::kF16);
    matmul(x, first);
    matmul(x, second);
    matmul(x, half);
  });
  EXPECT_EQ(plan.casts, 5);
  EXPECT_EQ(plan.shared_casts, 0);
  EXPECT_EQ(plan.avoided_casts, 0);
}

TEST(Plan, SaysWhatTheUserSetAndWhatO3Overrules) {
  OpRules rules;
  rules.keep_float32("matmul");
  const Policy policy{
      .level = Level::kO3, .lower = DType::kF16, .rules = std::make_shared<const OpRules>(rules)};
  const Plan plan = make_plan([&] {
    const Autocast region(policy);
    exp(matmul(full({2, 2}, 1), full({2, 2}, 1)));
  });
  EXPECT_EQ(plan.ops[0].rule, "user");
  EXPECT_EQ(plan.ops[0].dtype, DType::kF32);
  EXPECT_EQ(plan.ops[1].dtype, DType::kF16);
  EXPECT_THAT(plan.ops[1].reason, HasSubstr("everything is cast here; of itself: "));
}

// The operation itself, which follows any dtype, would explain it as no cast.
TEST(Plan, SaysThatTheLevelDecidedAndNotTheOperation) {
  const auto reason_at = [](Level level) {
    const Plan plan = make_plan([&] {
      const Autocast region({.level = level, .lower = DType::kBf16});
      relu(full({2, 2}, 1));
    });
    return plan.ops[0].reason;
  };
  const std::string own = find_op("relu")->precision.reason;
  EXPECT_EQ(reason_at(Level::kO1), "level O1 says f32; of itself: " + own);
  EXPECT_EQ(reason_at(Level::kO2), "level O2 says bf16; of itself: " + own);
  EXPECT_EQ(reason_at(Level::kAuto), own);
}

TEST(Plan, WhatIsCalledOutsideOfRegionsIsNotNamed) {
  OpRules rules;
  rules.lower("relu").lower("exp");
  const Policy policy{
      .level = Level::kO1, .lower = DType::kBf16, .rules = std::make_shared<const OpRules>(rules)};
  const Plan plan = make_plan([&] {
    exp(full({2}, 1));
    const Autocast region(policy);
    relu(full({2}, 1));
  });
  EXPECT_THAT(plan.named_without_calls(policy), testing::ElementsAre("exp"));
}

// Casts to 16 bits and back, as in graph mode's program.
TEST(Plan, CountsTheCastsThatRoundParametersAtO3) {
  nn::BatchNorm2d norm(3);
  const Tensor x = ones({2, 3, 4, 4});
  const auto plan_at = [&](bool keeps) {
    const Policy policy{.level = Level::kO3, .lower = DType::kF16, .keep_batchnorm_fp32 = keeps};
    return make_plan([&] {
      const Autocast region(policy);
      norm(x);
      norm(x);
    });
  };
  const Plan kept = plan_at(true);
  EXPECT_EQ(kept.casts, 2) << "of x";
  EXPECT_EQ(describe_casts(kept.ops[0]), "x0 f32>f16");
  const Plan rounded = plan_at(false);
  EXPECT_EQ(describe_casts(rounded.ops[0]),
            "x0 f32>f16, x1 f32>f16 (parameter), x1 f16>f32, x2 f32>f16 (parameter), x2 f16>f32");
  EXPECT_EQ(describe_casts(rounded.ops[1]),
            "x0 f32>f16, x1 f32>f16 (parameter, shared), x1 f16>f32, "
            "x2 f32>f16 (parameter, shared), x2 f16>f32");
  EXPECT_EQ(rounded.casts, kept.casts + 6);
  EXPECT_EQ(rounded.shared_casts, 2);
  EXPECT_THAT(rounded.ops[0].reason, HasSubstr("its parameters are rounded to f16"));
  EXPECT_THAT(kept.ops[0].reason, Not(HasSubstr("rounded to")));
}

TEST(Plan, FindsNamesThatChangeNothing) {
  OpRules rules;
  for (const char* op : {"add", "batch_norm", "conv2d", "softmax"}) rules.keep_float32(op);
  const Policy policy{.rules = std::make_shared<const OpRules>(rules)};
  const auto net = models::create("resnet18", models::usual_config("resnet18"));
  const Plan plan = make_plan(*net, {1, 3, 32, 32}, policy);
  EXPECT_THAT(plan.named_without_calls(policy), ElementsAre("add", "softmax"));
  EXPECT_THAT(plan.named_without_calls({}), testing::IsEmpty());
}

TEST(Plan, SeesTheSettingsOfModules) {
  const auto net = models::create("lenet5", models::usual_config("lenet5"));
  to_float(*net->find("fc3"), DType::kF32);
  const Plan plan = make_plan(*net, kImage, {.level = Level::kO2, .lower = DType::kF16});
  EXPECT_THAT(lines_of(plan), testing::Contains("fc2 linear f16 lower"));
  EXPECT_THAT(lines_of(plan), testing::Contains("fc3 linear f32 user"));
}

TEST(Plan, LeavesNothingBehind) {
  const auto net = models::create("resnet20", models::usual_config("resnet20"));
  const auto before = net->named_buffers()[0].tensor.to_vector<float>();
  make_plan(*net, {2, 3, 32, 32}, {.level = Level::kO2});
  EXPECT_EQ(net->named_buffers()[0].tensor.to_vector<float>(), before);
  EXPECT_TRUE(net->is_training());
  EXPECT_EQ(precision_hook(), nullptr);
}

}  // namespace
}  // namespace mezzo::amp
