#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mezzo/core/random.h"
#include "mezzo/nn/batch_norm.h"
#include "mezzo/nn/container.h"
#include "mezzo/nn/group_norm.h"
#include "mezzo/nn/layer_norm.h"
#include "mezzo/nn/rms_norm.h"
#include "mezzo/ops/arithmetic.h"
#include "mezzo/ops/reduce.h"
#include "mezzo/ops/relu.h"
#include "tests/unit/nn/example_net.h"

namespace mezzo::nn {
namespace {

using Floats = std::vector<float>;
using testing::Each;
using testing::ElementsAre;
using testing::FloatNear;
using testing::HasSubstr;
using testing::Pointwise;

constexpr float kTolerance = 8 * 1.2e-7F;  // a few roundings of values near 1

TEST(BatchNorm, StateIsPyTorchs) {
  const BatchNorm2d layer(3);
  EXPECT_THAT(names_of(layer.state()),
              ElementsAre("weight", "bias", "running_mean", "running_var", "num_batches_tracked"));
  EXPECT_THAT(layer.weight().to_vector<float>(), Each(1));
  EXPECT_THAT(layer.bias().to_vector<float>(), Each(0));
  EXPECT_THAT(layer.running_var().to_vector<float>(), Each(1));
  EXPECT_EQ(layer.parameter_count(), 6);
  EXPECT_FALSE(layer.running_mean().requires_grad());
}

TEST(BatchNorm, TrainingNormalisesByTheBatch) {
  BatchNorm1d layer(1, {.eps = 0});
  const Tensor y = layer(from_values({1.0F, 3.0F, 5.0F, 7.0F}, {4, 1}));
  const float step = 1 / std::sqrt(5.0F);  // mean 4, variance 5
  EXPECT_THAT(y.to_vector<float>(),
              Pointwise(FloatNear(kTolerance), Floats{-3 * step, -step, step, 3 * step}));
}

TEST(BatchNorm, RunningStatisticsFollowByMomentum) {
  BatchNorm1d layer(1, {.momentum = 0.25});
  layer(from_values({1.0F, 3.0F, 5.0F, 7.0F}, {4, 1}));
  const double unbiased = 20.0 / 3;
  EXPECT_NEAR(layer.running_mean().item(), 0.25 * 4, kTolerance);
  EXPECT_NEAR(layer.running_var().item(), 0.75 + 0.25 * unbiased, 4 * kTolerance);
  layer(from_values({0.0F, 2.0F}, {2, 1}));
  EXPECT_NEAR(layer.running_mean().item(), 0.75 * 1 + 0.25 * 1, kTolerance);
  EXPECT_EQ(layer.named_buffers()[2].tensor.item(), 2);
}

TEST(BatchNorm, EvalUsesAndKeepsTheRunningStatistics) {
  BatchNorm1d layer(1, {.eps = 0});
  fill(layer.running_mean(), 1);
  fill(layer.running_var(), 4);
  layer.eval();
  EXPECT_THAT(layer(from_values({1.0F, 5.0F}, {2, 1})).to_vector<float>(),
              Pointwise(FloatNear(kTolerance), Floats{0, 2}));
  EXPECT_EQ(layer.running_mean().item(), 1);
  EXPECT_EQ(layer.named_buffers()[2].tensor.item(), 0);
}

TEST(BatchNorm, FusedFormsAreTheSeparateSteps) {
  manual_seed(1);
  const Tensor x = randn({2, 3, 4, 5});
  const Tensor residual = randn({2, 3, 4, 5});
  BatchNorm2d layer(3);
  const Tensor plain = layer(x);
  EXPECT_THAT(layer.forward_relu(x).to_vector<float>(),
              Pointwise(FloatNear(kTolerance), relu(plain).to_vector<float>()));
  EXPECT_THAT(layer.forward_add_relu(x, residual).to_vector<float>(),
              Pointwise(FloatNear(kTolerance), relu(plain + residual).to_vector<float>()));
  EXPECT_EQ(layer.named_buffers()[2].tensor.item(), 3);
}

TEST(BatchNorm, GradientsReachParametersInputAndResidual) {
  manual_seed(1);
  const Tensor x = randn({2, 3, 4, 5}).set_requires_grad(true);
  const Tensor residual = randn({2, 3, 4, 5}).set_requires_grad(true);
  BatchNorm2d layer(3);
  const Tensor y = layer.forward_add_relu(x, residual);
  sum(y * y).backward();
  for (const Tensor& tensor : {x, residual, layer.weight(), layer.bias()}) {
    ASSERT_TRUE(tensor.grad().defined());
    EXPECT_THAT(tensor.grad().to_vector<float>(), testing::Contains(testing::Ne(0)));
  }
}

TEST(BatchNorm, StatisticsStayF32BesideBf16) {
  BatchNorm2d layer(2);
  EXPECT_EQ(layer(randn({2, 2, 3, 3}).astype(DType::kBf16)).dtype(), DType::kBf16);
  EXPECT_EQ(layer.running_mean().dtype(), DType::kF32);
  EXPECT_EQ(layer.weight().dtype(), DType::kF32);
}

TEST(BatchNorm, FusedFormsEnterTheModule) {
  class PathHook : public ForwardHook {
   public:
    Tensors around(Module&, const Tensors& inputs, const Forward& forward) override {
      path = current_module_path();
      return forward(inputs);
    }
    std::string path;
  };
  Sequential net;
  auto& layer = net.emplace<BatchNorm2d>(2);
  const auto hook = std::make_shared<PathHook>();
  layer.add_forward_hook(hook);
  layer.forward_relu(ones({2, 2, 3, 3}));
  EXPECT_EQ(hook->path, "0");
}

TEST(BatchNorm, RefusesOtherRanksAndSizes) {
  BatchNorm2d layer(2);
  EXPECT_THAT(message_of([&] { layer(ones({4, 2})); }), HasSubstr("[BatchNorm2d] x must be"));
  EXPECT_THROW(layer(ones({4, 3, 2, 2})), ArgumentError);
  EXPECT_THROW(BatchNorm1d(2)(ones({4, 2, 2, 2})), ArgumentError);
  EXPECT_THROW(BatchNorm1d(0), ArgumentError);
}

TEST(BatchNorm, RefusesNumbersThatMakeNoSense) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const double momentum : {-0.1, 1.5, nan}) {
    EXPECT_THAT(message_of([&] { const BatchNorm1d norm(2, {.momentum = momentum}); }),
                HasSubstr(concat("[BatchNorm] momentum must be in [0, 1]: ", momentum)));
  }
  for (const double eps : {-1e-5, nan}) {
    EXPECT_THAT(message_of([&] { const BatchNorm1d norm(2, {.eps = eps}); }),
                HasSubstr("[BatchNorm] eps must be finite and not negative"));
  }
}

TEST(LayerNorm, NormalisesTheLastAxes) {
  LayerNorm layer(2, {.eps = 0});
  EXPECT_THAT(names_of(layer.state()), ElementsAre("weight", "bias"));
  fill(layer.weight(), 3);
  fill(layer.bias(), 1);
  EXPECT_THAT(layer(from_values({1.0F, 5.0F, 7.0F, 6.0F}, {2, 2})).to_vector<float>(),
              Pointwise(FloatNear(kTolerance), Floats{-2, 4, 4, -2}));
}

TEST(LayerNorm, OverSeveralAxesAndWithoutParameters) {
  manual_seed(2);
  LayerNorm layer(Shape{3, 4}, {.affine = false});
  EXPECT_TRUE(layer.state().empty());
  const Tensor y = layer(randn({5, 3, 4}));
  for (const float row_mean : mean(y, {1, 2}).to_vector<float>()) {
    EXPECT_NEAR(row_mean, 0, kTolerance);
  }
  EXPECT_THROW(layer(randn({5, 4, 3})), ArgumentError);
  EXPECT_THROW(LayerNorm(0), ArgumentError);
  EXPECT_THROW(LayerNorm(Shape{}), ArgumentError);
}

TEST(LayerNorm, GradientsReachTheParameters) {
  manual_seed(2);
  LayerNorm layer(4);
  const Tensor y = layer(randn({3, 4}));
  sum(y * y * y).backward();
  EXPECT_THAT(layer.weight().grad().to_vector<float>(), testing::Contains(testing::Ne(0)));
  EXPECT_THAT(layer.bias().grad().to_vector<float>(), testing::Contains(testing::Ne(0)));
}

TEST(GroupNorm, NormalisesGroupsOfEachSample) {
  GroupNorm layer(2, 4, {.eps = 0});
  EXPECT_THAT(names_of(layer.state()), ElementsAre("weight", "bias"));
  EXPECT_THAT(layer.weight().to_vector<float>(), Each(1));
  EXPECT_THAT(layer.bias().to_vector<float>(), Each(0));
  fill(layer.weight(), 3);
  fill(layer.bias(), 1);
  EXPECT_THAT(layer(from_values({1.0F, 5.0F, 7.0F, 6.0F}, {1, 4})).to_vector<float>(),
              Pointwise(FloatNear(kTolerance), Floats{-2, 4, 4, -2}));
}

TEST(GroupNorm, IsTheSameInInferenceAndGradientsReachAll) {
  manual_seed(2);
  GroupNorm layer(3, 6);
  const Tensor x = randn({2, 6, 4, 5}).set_requires_grad(true);
  const Tensor y = layer(x);
  sum(y * y * y).backward();
  for (const Tensor& tensor : {x, layer.weight(), layer.bias()}) {
    ASSERT_TRUE(tensor.grad().defined());
    EXPECT_THAT(tensor.grad().to_vector<float>(), testing::Contains(testing::Ne(0)));
  }
  layer.eval();
  EXPECT_EQ(layer(x).to_vector<float>(), y.to_vector<float>());
}

TEST(GroupNorm, RefusesWhatItCannotDivide) {
  EXPECT_THAT(message_of([] { GroupNorm(3, 4); }), HasSubstr("divided into 3 groups"));
  EXPECT_THROW(GroupNorm(0, 4), ArgumentError);
  EXPECT_THAT(message_of([] {
                GroupNorm(2, 4)(ones({1, 6, 2, 2}));
              }),
              HasSubstr("[GroupNorm] x must have 4 channels"));
}

TEST(InstanceNorm2d, NormalisesEveryImage) {
  InstanceNorm2d layer(2, {.eps = 0});
  EXPECT_TRUE(layer.state().empty());
  EXPECT_THAT(layer(from_values({1.0F, 3.0F, 10.0F, 50.0F}, {1, 2, 1, 2})).to_vector<float>(),
              Pointwise(FloatNear(kTolerance), Floats{-1, 1, -1, 1}));
  EXPECT_THAT(names_of(InstanceNorm2d(2, {.affine = true}).state()), ElementsAre("weight", "bias"));
  EXPECT_THAT(message_of([&] {
                layer(ones({4, 2}));
              }),
              HasSubstr("[InstanceNorm2d] x must be [n, c, h, w]"));
}

TEST(RmsNorm, StateIsPyTorchs) {
  const RmsNorm layer(4);
  EXPECT_THAT(names_of(layer.state()), ElementsAre("weight"));
  EXPECT_THAT(layer.weight().to_vector<float>(), Each(1));
  EXPECT_EQ(RmsNorm({2, 4}, {.affine = false}).parameter_count(), 0);
}

TEST(RmsNorm, DividesByTheRootOfTheMeanSquare) {
  RmsNorm layer(2, {.eps = 0});
  fill(layer.weight(), 5);
  const float root = std::sqrt(12.5F);
  const Tensor y = layer(from_values({3.0F, 4.0F}, {1, 2}));
  EXPECT_THAT(y.to_vector<float>(),
              Pointwise(FloatNear(4 * kTolerance), Floats{15 / root, 20 / root}));
}

TEST(RmsNorm, RefusesSizesThatAreNotPositive) {
  EXPECT_THROW(RmsNorm(0), ArgumentError);
  EXPECT_THROW(RmsNorm(Shape{}), ArgumentError);
}

}  // namespace
}  // namespace mezzo::nn
