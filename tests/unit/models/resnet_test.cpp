#include "mezzo/models/resnet.h"

#include <cmath>
#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mezzo/core/random.h"
#include "mezzo/ops/dispatcher/grad_mode.h"

namespace mezzo::models {
namespace {

using testing::Contains;
using testing::Each;
using testing::Not;

struct Size {
  const char* name;
  std::size_t entries;
  std::int64_t parameters;
};

class TorchvisionResNet : public testing::TestWithParam<Size> {};

// Counted in torchvision, with 1000 classes.
TEST_P(TorchvisionResNet, HasItsState) {
  const auto model = create(GetParam().name, {.num_classes = 1000, .image_size = 224});
  EXPECT_EQ(model->state().size(), GetParam().entries);
  EXPECT_EQ(model->parameter_count(), GetParam().parameters);
}

INSTANTIATE_TEST_SUITE_P(Models, TorchvisionResNet,
                         testing::Values(Size{"resnet18", 122, 11689512},
                                         Size{"resnet34", 218, 21797672},
                                         Size{"resnet50", 320, 25557032},
                                         Size{"resnet101", 626, 44549160}),
                         [](const auto& test) { return std::string(test.param.name); });

std::map<std::string, Tensor> state_map(const nn::Module& model) {
  std::map<std::string, Tensor> result;
  for (const NamedTensor& entry : model.state()) result[entry.name] = entry.tensor;
  return result;
}

TEST(ResNet, NamesAndShapesAreTorchvisions) {
  const ResNet model(ResNetDepth::k50, {.num_classes = 1000});
  const std::map<std::string, Tensor> state = state_map(model);
  const std::pair<const char*, Shape> expected[] = {
      {"conv1.weight", {64, 3, 7, 7}},
      {"bn1.weight", {64}},
      {"bn1.bias", {64}},
      {"bn1.running_mean", {64}},
      {"bn1.running_var", {64}},
      {"bn1.num_batches_tracked", {}},
      {"layer1.0.conv1.weight", {64, 64, 1, 1}},
      {"layer1.0.conv2.weight", {64, 64, 3, 3}},
      {"layer1.0.conv3.weight", {256, 64, 1, 1}},
      {"layer1.0.downsample.0.weight", {256, 64, 1, 1}},
      {"layer1.0.downsample.1.running_var", {256}},
      {"layer2.0.downsample.0.weight", {512, 256, 1, 1}},
      {"layer4.2.bn3.bias", {2048}},
      {"fc.weight", {1000, 2048}},
      {"fc.bias", {1000}},
  };
  for (const auto& [name, shape] : expected) {
    ASSERT_TRUE(state.contains(name)) << name;
    EXPECT_EQ(state.at(name).shape(), shape) << name;
  }
  EXPECT_FALSE(state.contains("conv1.bias"));
  EXPECT_FALSE(state.contains("layer1.1.downsample.0.weight"));
  EXPECT_EQ(state.at("bn1.num_batches_tracked").dtype(), DType::kI64);
}

TEST(ResNet, OrderIsTorchvisions) {
  const ResNet model(ResNetDepth::k18);
  std::vector<std::string> names;
  for (const NamedTensor& entry : model.state()) names.push_back(entry.name);
  EXPECT_EQ(names[0], "conv1.weight");
  EXPECT_EQ(names[5], "bn1.num_batches_tracked");
  EXPECT_EQ(names[6], "layer1.0.conv1.weight");
  EXPECT_EQ(names[120], "fc.weight");
  EXPECT_EQ(names[121], "fc.bias");
}

double deviation_of(const Tensor& tensor) {
  double squares = 0;
  for (const double value : tensor.to_vector<double>()) squares += value * value;
  return std::sqrt(squares / static_cast<double>(tensor.numel()));
}

TEST(ResNet, InitialValuesAreTorchvisions) {
  manual_seed(0);
  const ResNet model(ResNetDepth::k18);
  const std::map<std::string, Tensor> state = state_map(model);
  const double expected = std::sqrt(2.0 / (512 * 9));  // kaiming_normal with fan_out
  EXPECT_NEAR(deviation_of(state.at("layer4.1.conv2.weight")), expected, 0.01 * expected);
  EXPECT_THAT(state.at("layer4.1.bn2.weight").to_vector<float>(), Each(1));
  EXPECT_THAT(state.at("layer4.1.bn2.bias").to_vector<float>(), Each(0));
  EXPECT_THAT(state.at("fc.bias").to_vector<float>(), Contains(testing::Ne(0)));
}

TEST(ResNet, CifarExperiment) {
  manual_seed(0);
  ResNet model(ResNetDepth::k50, {}, ResNetOptions::cifar_experiment());
  const std::map<std::string, Tensor> state = state_map(model);
  EXPECT_THAT(state.at("layer1.0.bn3.weight").to_vector<float>(), Each(0));
  EXPECT_THAT(state.at("layer1.0.bn2.weight").to_vector<float>(), Each(1));
  EXPECT_THAT(state.at("layer1.0.downsample.1.weight").to_vector<float>(), Each(1));
  EXPECT_THAT(state.at("fc.bias").to_vector<float>(), Each(0));
  EXPECT_NEAR(deviation_of(state.at("layer4.0.conv2.weight")), 0.01, 1e-4);
  EXPECT_NEAR(deviation_of(state.at("fc.weight")), 0.01, 5e-4);
  EXPECT_EQ(state.size(), 320U);
}

TEST(ResNet, OtherInitialValues) {
  const ResNet model(ResNetDepth::k18, {}, {.init = ResNetInit::kXavier});
  const std::map<std::string, Tensor> state = state_map(model);
  const double expected = std::sqrt(2.0 / (2 * 512 * 9));
  EXPECT_NEAR(deviation_of(state.at("layer4.1.conv2.weight")), expected, 0.01 * expected);
  EXPECT_THAT(state.at("fc.weight").to_vector<float>(),
              Each(testing::AllOf(testing::Ge(-0.04F), testing::Le(0.04F))));
}

TEST(ResNet, SmallStemKeepsTheImageSize) {
  const NoGrad guard;
  ResNet model(ResNetDepth::k18, {}, {.small_stem = true});
  EXPECT_EQ(state_map(model).at("conv1.weight").shape(), (Shape{64, 3, 3, 3}));
  EXPECT_EQ(model(ones({2, 3, 8, 8})).shape(), (Shape{2, 10}));
}

// At odd sizes, `same` pads evenly, as torchvision always does. At even sizes it pads only below
// and to the right.
TEST(ResNet, SamePaddingDiffersFromNumbersAtEvenSizesOnly) {
  const NoGrad guard;
  ResNet numbers(ResNetDepth::k18);
  ResNet same(ResNetDepth::k18, {}, {.same_padding = true});
  same.load_state(numbers.state());
  numbers.eval();
  same.eval();
  const Tensor odd = randn({1, 3, 33, 33});
  EXPECT_EQ(numbers(odd).to_vector<float>(), same(odd).to_vector<float>());
  const Tensor even = randn({1, 3, 32, 32});
  EXPECT_NE(numbers(even).to_vector<float>(), same(even).to_vector<float>());
}

TEST(ResNet, BatchNormFollowsTheBatches) {
  const NoGrad guard;
  manual_seed(5);
  ResNet model(ResNetDepth::k18);
  const std::map<std::string, Tensor> state = state_map(model);
  model(randn({2, 3, 32, 32}));
  EXPECT_EQ(state.at("layer3.0.downsample.1.num_batches_tracked").item(), 1);
  EXPECT_THAT(state.at("bn1.running_mean").to_vector<float>(), Not(Each(0)));
  model.eval();
  model(randn({2, 3, 32, 32}));
  EXPECT_EQ(state.at("bn1.num_batches_tracked").item(), 1);
}

}  // namespace
}  // namespace mezzo::models
