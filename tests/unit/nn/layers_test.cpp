#include <algorithm>
#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mezzo/nn/activation.h"
#include "mezzo/nn/conv.h"
#include "mezzo/nn/dropout.h"
#include "mezzo/nn/embedding.h"
#include "mezzo/nn/init.h"
#include "mezzo/nn/linear.h"
#include "mezzo/nn/loss.h"
#include "mezzo/nn/pooling.h"
#include "mezzo/nn/upsample.h"
#include "mezzo/ops/reduce.h"
#include "mezzo/ops/shape_ops.h"
#include "tests/unit/nn/example_net.h"

namespace mezzo::nn {
namespace {

using Floats = std::vector<float>;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;

// Expects that every parameter of the module gets a non-zero gradient.
void expect_gradients(Module& module, const Tensor& x) {
  const Tensor y = module(x);
  sum(y * y).backward();
  for (const NamedTensor& parameter : module.named_parameters()) {
    ASSERT_TRUE(parameter.tensor.grad().defined()) << parameter.name;
    EXPECT_EQ(parameter.tensor.grad().shape(), parameter.tensor.shape()) << parameter.name;
    EXPECT_THAT(parameter.tensor.grad().to_vector<float>(), testing::Contains(testing::Ne(0)))
        << parameter.name;
  }
}

TEST(Linear, ComputesAndLearns) {
  Linear layer(3, 2);
  EXPECT_THAT(names_of(layer.state()), ElementsAre("weight", "bias"));
  EXPECT_EQ(layer.weight().shape(), (Shape{2, 3}));
  init::constant(layer.weight(), 2);
  init::constant(layer.bias(), 1);
  EXPECT_EQ(layer(ones({1, 3})).to_vector<float>(), (Floats{7, 7}));
  expect_gradients(layer, randn({4, 3}));
}

TEST(Linear, WithoutBias) {
  Linear layer(3, 2, false);
  EXPECT_FALSE(layer.bias().defined());
  EXPECT_THAT(names_of(layer.state()), ElementsAre("weight"));
  EXPECT_THROW(Linear(0, 2), ArgumentError);
}

TEST(Conv2d, ComputesAndLearns) {
  Conv2d layer(4, 6, {3, 1}, {.stride = 2, .padding = {1, 0}, .groups = 2});
  EXPECT_EQ(layer.weight().shape(), (Shape{6, 2, 3, 1}));
  EXPECT_EQ(layer.parameter_count(), 6 * 2 * 3 + 6);
  EXPECT_EQ(layer(ones({2, 4, 7, 5})).shape(), (Shape{2, 6, 4, 3}));
  expect_gradients(layer, randn({2, 4, 7, 5}));
}

TEST(Conv2d, OptionsReachTheOperation) {
  Conv2d layer(1, 1, 3,
               {.padding = Padding::kSame,
                .dilation = 2,
                .bias = false,
                .weight_init = [](const Tensor& weight) { init::constant(weight, 1); }});
  EXPECT_THAT(layer.weight().to_vector<float>(), Each(1));
  EXPECT_FALSE(layer.bias().defined());
  const Tensor y = layer(ones({1, 1, 5, 5}));
  EXPECT_EQ(y.shape(), (Shape{1, 1, 5, 5}));
  EXPECT_EQ(y.to_vector<float>()[12], 9);
  EXPECT_EQ(y.to_vector<float>()[0], 4);
}

TEST(Conv2d, RefusesChannelsThatGroupsDoNotDivide) {
  EXPECT_THAT(message_of([] { Conv2d(3, 4, 3, {.groups = 2}); }), HasSubstr("groups 2"));
  EXPECT_THROW(Conv2d(3, 4, 0), ArgumentError);
  EXPECT_THROW(Conv2d(3, 4, 3, {.groups = 0}), ArgumentError);
}

TEST(ConvTranspose2d, ComputesAndLearns) {
  ConvTranspose2d layer(
      4, 6, {3, 2}, {.stride = {2, 1}, .padding = {1, 0}, .output_padding = {1, 0}, .groups = 2});
  EXPECT_THAT(names_of(layer.state()), ElementsAre("weight", "bias"));
  EXPECT_EQ(layer.weight().shape(), (Shape{4, 3, 3, 2}));
  EXPECT_EQ(layer.bias().shape(), (Shape{6}));
  EXPECT_EQ(layer(ones({2, 4, 7, 5})).shape(), (Shape{2, 6, 14, 6}));
  expect_gradients(layer, randn({2, 4, 7, 5}));
}

// PyTorch's fan_in is the size of all axes after the first, whichever way the layer works.
TEST(ConvTranspose2d, InitialValuesArePyTorchs) {
  manual_seed(3);
  const ConvTranspose2d layer(64, 3, 4);
  const double bound = 1 / std::sqrt(3.0 * 4 * 4);
  const Floats weight = layer.weight().to_vector<float>();
  const auto [low, high] = std::ranges::minmax(weight);
  EXPECT_TRUE(low >= -bound && low < -0.99 * bound) << low;
  EXPECT_TRUE(high <= bound && high > 0.99 * bound) << high;
  EXPECT_THAT(layer.bias().to_vector<float>(),
              Each(testing::AllOf(testing::Ge(-bound), testing::Le(bound))));
}

TEST(ConvTranspose2d, OptionsReachTheOperation) {
  ConvTranspose2d layer(1, 1, 2,
                        {.stride = 3,
                         .padding = Padding::kSame,
                         .dilation = 1,
                         .bias = false,
                         .weight_init = [](const Tensor& weight) { init::constant(weight, 2); }});
  EXPECT_FALSE(layer.bias().defined());
  EXPECT_EQ(layer(ones({1, 1, 1, 1})).to_vector<float>(), (Floats{2, 2, 0, 2, 2, 0, 0, 0, 0}));
  EXPECT_THAT(message_of([] { ConvTranspose2d(3, 4, 3, {.groups = 2}); }),
              HasSubstr("[ConvTranspose2d] groups 2"));
}

TEST(Upsample, RepeatsPixels) {
  EXPECT_EQ(Upsample({1, 2})(from_values({1.0F, 2.0F}, {1, 1, 1, 2})).to_vector<float>(),
            (Floats{1, 1, 2, 2}));
  EXPECT_THROW(Upsample(0), ArgumentError);
}

TEST(Upsample, InterpolatesPixels) {
  const Tensor x = from_values({1.0F, 3.0F, 1.0F}, {1, 1, 1, 3});
  const UpsampleOptions edges = {.mode = UpsampleMode::kBilinear};
  const UpsampleOptions corners = {.mode = UpsampleMode::kBilinear, .align_corners = true};
  EXPECT_EQ(Upsample({1, 2}, edges)(x).to_vector<float>(), (Floats{1, 1.5, 2.5, 2.5, 1.5, 1}));
  EXPECT_EQ(Upsample({1, 3}, corners)(x).to_vector<float>(),
            (Floats{1, 1.5, 2, 2.5, 3, 2.5, 2, 1.5, 1}));
  EXPECT_THROW(Upsample(2, {.align_corners = true}), ArgumentError);
}

TEST(Layers, SeedFixesTheInitialValues) {
  manual_seed(3);
  const Floats first = Conv2d(3, 4, 3).weight().to_vector<float>();
  const Floats second = Conv2d(3, 4, 3).weight().to_vector<float>();
  manual_seed(3);
  EXPECT_EQ(Conv2d(3, 4, 3).weight().to_vector<float>(), first);
  EXPECT_NE(first, second);
}

TEST(Flatten, KeepsTheBatch) {
  Flatten layer;
  EXPECT_EQ(layer(ones({2, 3, 4, 5})).shape(), (Shape{2, 60}));
  EXPECT_EQ(Flatten(0, 1)(ones({2, 3, 4})).shape(), (Shape{6, 4}));
}

TEST(Activations, CallTheirOperation) {
  const Tensor x = from_values({-1.0F, 0.0F, 2.0F}, {3});
  EXPECT_EQ(ReLU()(x).to_vector<float>(), (Floats{0, 0, 2}));
  EXPECT_EQ(GELU()(x).to_vector<float>(), gelu(x).to_vector<float>());
  EXPECT_EQ(GELU(GeluForm::kTanh)(x).to_vector<float>(),
            gelu(x, GeluForm::kTanh).to_vector<float>());
  EXPECT_EQ(SiLU()(x).to_vector<float>(), silu(x).to_vector<float>());
  EXPECT_EQ(LeakyReLU()(x).to_vector<float>(), (Floats{-0.01F, 0, 2}));
  EXPECT_EQ(LeakyReLU(0.5)(x).to_vector<float>(), (Floats{-0.5F, 0, 2}));
  EXPECT_EQ(Sigmoid()(x).to_vector<float>(), sigmoid(x).to_vector<float>());
  EXPECT_EQ(Tanh()(x).to_vector<float>(), tanh(x).to_vector<float>());
  EXPECT_EQ(Identity()(x).impl(), x.impl());
}

TEST(Pooling, OptionsReachTheOperation) {
  const Tensor x = reshape(arange(16), {1, 1, 4, 4});
  EXPECT_EQ(MaxPool2d(2)(x).to_vector<float>(), (Floats{5, 7, 13, 15}));
  EXPECT_EQ(MaxPool2d(3, {.stride = 2, .padding = 1})(x).to_vector<float>(),
            (Floats{5, 7, 13, 15}));
  EXPECT_EQ(MaxPool2d(3, {.stride = 2, .padding = Padding::kSame})(x).to_vector<float>(),
            (Floats{10, 11, 14, 15}));
  EXPECT_EQ(AvgPool2d(2)(x).to_vector<float>(), (Floats{2.5, 4.5, 10.5, 12.5}));
  Pool2dOptions corner = {.stride = 4, .padding = 1};
  EXPECT_EQ(AvgPool2d(3, corner)(x).to_vector<float>(), (Floats{10.0F / 9}));
  corner.count_include_pad = false;
  EXPECT_EQ(AvgPool2d(3, corner)(x).to_vector<float>(), (Floats{2.5}));
  EXPECT_EQ(GlobalAvgPool2d()(x).shape(), (Shape{1, 1, 1, 1}));
  EXPECT_EQ(GlobalAvgPool2d()(x).item(), 7.5);
}

TEST(Dropout, ActsInTrainingOnly) {
  manual_seed(1);
  Dropout layer(0.75);
  const Tensor x = ones({1000});
  const Floats dropped = layer(x).to_vector<float>();
  EXPECT_THAT(dropped, Each(testing::AnyOf(0, 4)));
  const auto kept = std::ranges::count(dropped, 4);
  EXPECT_NEAR(kept, 250, 5 * std::sqrt(1000 * 0.25 * 0.75));
  EXPECT_NE(layer(x).to_vector<float>(), dropped);
  manual_seed(1);
  EXPECT_EQ(layer(x).to_vector<float>(), dropped);
  layer.eval();
  EXPECT_THAT(layer(x).to_vector<float>(), Each(1));
  EXPECT_THAT(Dropout(1)(x).to_vector<float>(), Each(0));
  EXPECT_THROW(Dropout(1.1), ArgumentError);
}

TEST(Embedding, LooksRowsUp) {
  manual_seed(2);
  Embedding layer(4, 3);
  const Tensor y = layer(from_values<std::int64_t>({2, 0, 2}, {3, 1}));
  EXPECT_EQ(y.shape(), (Shape{3, 1, 3}));
  sum(y).backward();
  EXPECT_EQ(layer.weight().grad().to_vector<float>(), (Floats{1, 1, 1, 0, 0, 0, 2, 2, 2, 0, 0, 0}));
  EXPECT_THROW(layer(from_values<std::int64_t>({4}, {1})), ArgumentError);
  EXPECT_THROW(Embedding(0, 3), ArgumentError);
}

TEST(Losses, CallTheirOperation) {
  const Tensor logits = randn({2, 3});
  const Tensor labels = from_values<std::int64_t>({2, 0}, {2});
  EXPECT_EQ(CrossEntropyLoss({.label_smoothing = 0.1})(logits, labels).item(),
            cross_entropy(logits, labels, {.label_smoothing = 0.1}).item());
  EXPECT_EQ(MseLoss(Reduction::kSum)(ones({2, 3}), zeros({2, 3})).item(), 6);
}

}  // namespace
}  // namespace mezzo::nn
