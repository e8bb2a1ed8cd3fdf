#include "mezzo/nn/freeze.h"

#include <gmock/gmock.h>

#include "mezzo/models/model.h"
#include "mezzo/nn/batch_norm.h"
#include "mezzo/nn/conv.h"
#include "mezzo/nn/linear.h"
#include "mezzo/ops/reduce.h"
#include "mezzo/ops/shape_ops.h"
#include "mezzo/optim/sgd.h"
#include "tests/unit/message_of.h"

namespace mezzo::nn {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class FreezableNet final : public Module {
 public:
  FreezableNet() { add("conv", conv), add("bn", bn), add("fc", fc); }
  Tensor forward(const Tensor& x) override { return fc(flatten(bn.forward_relu(conv(x)), 1)); }

  Conv2d conv{1, 2, 3};
  BatchNorm2d bn{2};
  Linear fc{2 * 4 * 4, 3};
};

std::vector<std::string> names_of_matching(const std::vector<NamedTensor>& entries) {
  std::vector<std::string> names;
  for (const NamedTensor& entry : entries) names.push_back(entry.name);
  return names;
}

TEST(ParametersMatching, AreThoseOfModulesAndThoseOfTheName) {
  FreezableNet net;
  EXPECT_THAT(names_of_matching(parameters_matching(net, "conv", "test")),
              ElementsAre("conv.weight", "conv.bias"));
  EXPECT_THAT(names_of_matching(parameters_matching(net, "*.bias", "test")),
              ElementsAre("conv.bias", "bn.bias", "fc.bias"));
  EXPECT_THAT(names_of_matching(parameters_matching(net, "?[nc]*", "test")),
              ElementsAre("bn.weight", "bn.bias", "fc.weight", "fc.bias"));
  const auto resnet = models::create("resnet20", models::usual_config("resnet20"));
  for (const char* pattern : {"layer1", "layer1.*"}) {
    EXPECT_EQ(parameters_matching(*resnet, pattern, "test").size(), 18U) << pattern;
  }
  EXPECT_THAT(message_of<ArgumentError>([&] { parameters_matching(net, "head", "test"); }),
              HasSubstr("[test] no parameter belongs to `head`. Patterns match paths of modules or "
                        "names of parameters, such as fc.bias"));
}

TEST(Freeze, TakesGradientsAndStatisticsAway) {
  FreezableNet net;
  const Frozen frozen = freeze(net, {"conv", "bn"});
  EXPECT_THAT(frozen.parameters, ElementsAre("conv.weight", "conv.bias", "bn.weight", "bn.bias"));
  EXPECT_THAT(frozen.norms, ElementsAre("bn"));
  EXPECT_EQ(frozen.numbers, 2 * 9 + 2 + 2 + 2);
  EXPECT_EQ(describe_frozen(net), "4 of 6 parameters (24 of 123 values), 1 batch norm");
  EXPECT_TRUE(net.is_training());
  EXPECT_FALSE(net.bn.is_training());
  const std::vector<float> mean = net.bn.running_mean().to_vector<float>();
  sum(net(randn({5, 1, 6, 6}))).backward();
  EXPECT_EQ(net.bn.running_mean().to_vector<float>(), mean);
  for (const NamedTensor& entry : net.named_parameters()) {
    EXPECT_EQ(entry.tensor.grad().defined(), entry.name.starts_with("fc")) << entry.name;
  }
  optim::Sgd optimizer(trainable_parameters(net), {.lr = 0.1, .momentum = 0.9});
  optimizer.step();
  EXPECT_EQ(optimizer.state().size(), 2U);
}

// A norm whose scale is trained uses the batch statistics, for which the scale was made.
TEST(Freeze, ABatchNormWithSomethingToTrainStaysInTraining) {
  FreezableNet net;
  EXPECT_THAT(freeze(net, {"bn.bias", "conv"}).norms, IsEmpty());
  EXPECT_TRUE(net.bn.is_training());
  EXPECT_THAT(freeze(net, {"bn.weight"}).norms, ElementsAre("bn"));
}

TEST(Freeze, WhatFitsNothingOrLeavesNothingChangesNothing) {
  FreezableNet net;
  EXPECT_THROW(freeze(net, {"conv", "layer9.*"}), ArgumentError);
  EXPECT_THAT(message_of<ArgumentError>([&] {
                freeze(net, {"conv", "bn", "*"});
              }),
              HasSubstr("[freeze] nothing is left to train: all 6 parameters would be frozen"));
  EXPECT_THAT(frozen_parts(net).parameters, IsEmpty());
  EXPECT_TRUE(net.bn.is_training());
  EXPECT_EQ(describe_frozen(net), "");
  EXPECT_EQ(trainable_parameters(net).size(), 6U);
  EXPECT_THAT(freeze(net, {}).parameters, IsEmpty());
}

}  // namespace
}  // namespace mezzo::nn
