#include "mezzo/models/resnet20.h"

#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mezzo/core/random.h"
#include "mezzo/ops/dispatcher/grad_mode.h"
#include "mezzo/ops/pool.h"

namespace mezzo::models {
namespace {

TEST(ResNet20, HasThePapersSize) {
  const ResNet20 model;
  EXPECT_EQ(model.parameter_count(), 269722);
  std::map<std::string, Tensor> state;
  for (const NamedTensor& entry : model.state()) state[entry.name] = entry.tensor;
  EXPECT_EQ(state.at("layer3.2.conv2.weight").shape(), (Shape{64, 64, 3, 3}));
  EXPECT_EQ(state.at("fc.weight").shape(), (Shape{10, 64}));
  EXPECT_FALSE(state.contains("layer2.0.downsample.0.weight"));
}

// If a block's convolutions are 0 and batch norm has its initial statistics of 0 and 1, the block
// is relu(shortcut(x)).
TEST(ResNet20, ShortcutsAreThinnedIdentitiesWithZeroChannels) {
  const NoGrad guard;
  manual_seed(4);
  ResNet20 model;
  model.eval();
  nn::Module* first_of_stage2 = nullptr;
  for (const auto& [name, module] : model.named_modules()) {
    if (name == "layer2.0") first_of_stage2 = module;
  }
  ASSERT_NE(first_of_stage2, nullptr);
  for (const auto& [name, parameter] : first_of_stage2->named_parameters()) {
    if (name.find("conv") != std::string::npos) fill(parameter, 0);
  }
  const Tensor x = rand({2, 16, 5, 5});
  const std::vector<float> in = x.to_vector<float>();
  const Tensor y = (*first_of_stage2)(x);
  ASSERT_EQ(y.shape(), (Shape{2, 32, 3, 3}));
  const std::vector<float> out = y.to_vector<float>();
  for (std::size_t image = 0; image < 2; ++image) {
    for (std::size_t channel = 0; channel < 32; ++channel) {
      for (std::size_t pixel = 0; pixel < 9; ++pixel) {
        const std::size_t source = (image * 16 + channel) * 25 + pixel / 3 * 10 + pixel % 3 * 2;
        EXPECT_EQ(out[(image * 32 + channel) * 9 + pixel], channel < 16 ? in[source] : 0);
      }
    }
  }
}

}  // namespace
}  // namespace mezzo::models
