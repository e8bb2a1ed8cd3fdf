#include "mezzo/models/model.h"

#include <algorithm>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mezzo/core/random.h"
#include "mezzo/nn/loss.h"
#include "mezzo/ops/dispatcher/grad_mode.h"
#include "tests/unit/small_models.h"

namespace mezzo::models {
namespace {

using testing::ElementsAre;

std::vector<std::string> state_names(const nn::Module& model) {
  std::vector<std::string> names;
  for (const NamedTensor& entry : model.state()) names.push_back(entry.name);
  return names;
}

// The largest images, or sequences, that a network processes cheaply.
ModelConfig small_config(const std::string& name) {
  ModelConfig config{.in_channels = 2, .num_classes = 5, .image_size = name == "lenet5" ? 28 : 16};
  if (usual_config(name).is_for_tokens()) {
    config.tokens = 4;
    config.vocabulary = 5;
  }
  return config;
}

Tensor example_of(const ModelConfig& config, std::int64_t n) {
  if (config.is_for_tokens()) return ones({n, config.tokens}, DType::kI64);
  return randn({n, config.in_channels, config.image_size, config.image_size});
}

// The loss of a batch of two, whatever the network reads.
Tensor loss_of(const ModelConfig& config, const Tensor& logits) {
  if (config.is_for_tokens()) return nn::NextTokenLoss()(logits, example_of(config, 2));
  return nn::CrossEntropyLoss()(logits, from_values<std::int64_t>({1, 4}, {2}));
}

class EveryModel : public testing::TestWithParam<std::string> {};

TEST_P(EveryModel, GradientsReachEveryParameterAndEvaluationChangesNothing) {
  manual_seed(1);
  const ModelConfig config = small_config(GetParam());
  const auto model = create(GetParam(), config);
  const Tensor logits = (*model)(example_of(config, 2));
  EXPECT_EQ(logits.shape(), config.is_for_tokens() ? Shape({2, 4, 5}) : Shape({2, 5}));
  loss_of(config, logits).backward();
  for (const NamedTensor& parameter : model->named_parameters()) {
    ASSERT_TRUE(parameter.tensor.grad().defined()) << parameter.name;
    EXPECT_EQ(parameter.tensor.grad().shape(), parameter.tensor.shape()) << parameter.name;
    EXPECT_EQ(parameter.tensor.grad().dtype(), DType::kF32) << parameter.name;
  }

  const NoGrad guard;
  model->eval();
  std::vector<std::uint64_t> versions;
  for (const NamedTensor& entry : model->state()) versions.push_back(entry.tensor.version());
  EXPECT_EQ((*model)(example_of(config, 1)).size(0), 1);
  for (std::size_t i = 0; const NamedTensor& entry : model->state()) {
    EXPECT_EQ(entry.tensor.version(), versions[i++]) << entry.name;
  }
}

INSTANTIATE_TEST_SUITE_P(Models, EveryModel, testing::ValuesIn(test::small_model_names()),
                         [](const auto& test) { return test::identifier_of(test.param); });

TEST(Create, SeedFixesTheNetwork) {
  const auto first_weight = [](std::uint64_t seed) {
    manual_seed(seed);
    return create("lenet5")->parameters()[0].to_vector<float>();
  };
  EXPECT_EQ(first_weight(3), first_weight(3));
  EXPECT_NE(first_weight(3), first_weight(4));
}

std::int64_t silent_norms(const nn::Module& model) {
  return std::ranges::count_if(model.state(), [](const NamedTensor& entry) {
    return entry.name.ends_with(".weight") && entry.tensor.rank() == 1 &&
           std::ranges::all_of(entry.tensor.to_vector<float>(), [](float w) { return w == 0; });
  });
}

TEST(Create, ZeroInitResidualSilencesTheLastNormOfEveryBlock) {
  const auto created = [](const char* name, bool zero_init_residual) {
    return create(name, {.zero_init_residual = zero_init_residual});
  };
  for (const auto& [name, blocks] :
       {std::pair("resnet20", 9), std::pair("resnet18", 8), std::pair("resnet50", 16)}) {
    EXPECT_EQ(silent_norms(*created(name, true)), blocks) << name;
    EXPECT_EQ(silent_norms(*created(name, false)), 0) << name;
  }
  EXPECT_EQ(silent_norms(*created("resnet50_cifar", false)), 16);
  const auto state = created("resnet20", true)->state();
  const auto last = std::ranges::find(state, "layer3.2.bn2.weight", &NamedTensor::name);
  ASSERT_NE(last, state.end());
  EXPECT_EQ(last->tensor.to_vector<float>(), std::vector<float>(64));
}

TEST(Create, ErrorsSayWhatIsPossible) {
  try {
    create("resnet19");
    FAIL();
  } catch (const ArgumentError& error) {
    EXPECT_STREQ(error.what(),
                 "[model] there is no model `resnet19`. Choose one of lenet5, mlp, resnet20, "
                 "resnet18, resnet34, resnet50, resnet101, resnet50_cifar, vit_ti_16, vit_s_16, "
                 "vit_b_16, gpt-tiny, gpt2, gpt2-medium, gpt2-large, gpt2-xl");
  }
  EXPECT_THROW(create("lenet5", {.image_size = 64}), ArgumentError);
  EXPECT_THROW(create("mlp", {.num_classes = 0}), ArgumentError);
  EXPECT_THROW(create("mlp", {.image_size = 28, .zero_init_residual = true}), ArgumentError);
}

TEST(LeNet5, HasThePromisedNames) {
  const auto model = create("lenet5", {.in_channels = 1, .image_size = 28});
  EXPECT_THAT(state_names(*model),
              ElementsAre("conv1.weight", "conv1.bias", "conv2.weight", "conv2.bias", "fc1.weight",
                          "fc1.bias", "fc2.weight", "fc2.bias", "fc3.weight", "fc3.bias"));
  EXPECT_EQ(model->parameter_count(), 61706);
}

TEST(LeNet5, TakesImagesOf32Pixels) {
  for (const std::int64_t channels : {1, 3}) {
    const auto model = create("lenet5", {.in_channels = channels, .image_size = 32});
    EXPECT_EQ((*model)(ones({2, channels, 32, 32})).shape(), (Shape{2, 10}));
  }
}

TEST(Mlp, HasThePromisedNames) {
  const auto model = create("mlp", {.in_channels = 1, .image_size = 28});
  EXPECT_THAT(state_names(*model), ElementsAre("fc1.weight", "fc1.bias", "fc2.weight", "fc2.bias",
                                               "fc3.weight", "fc3.bias"));
  EXPECT_EQ(model->parameter_count(), 784 * 512 + 512 + 512 * 512 + 512 + 512 * 10 + 10);
}

}  // namespace
}  // namespace mezzo::models
