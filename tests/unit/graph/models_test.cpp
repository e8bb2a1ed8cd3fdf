// Tests every model in graph mode: the bits of eager mode.
#include <algorithm>
#include <string>

#include "mezzo/models/gpt.h"
#include "mezzo/models/model.h"
#include "mezzo/nn/loss.h"
#include "mezzo/optim/adam.h"
#include "tests/unit/graph/twins.h"
#include "tests/unit/small_models.h"

namespace mezzo::graph {
namespace {

class EveryModel : public testing::TestWithParam<std::string> {};

TEST_P(EveryModel, HasTheBitsOfEagerModeOverTenSteps) {
  const std::string& name = GetParam();
  const models::ModelConfig config = models::usual_config(name);
  const std::int64_t size = std::min<std::int64_t>(config.image_size, 32);
  const auto make = [&] { return models::create(name, {config.in_channels, 10, size}); };
  Twins<nn::Module> twins(make, optim::SgdOptions{.lr = 0.01, .momentum = 0.9}, {.level = "O0"});
  Generator images(4);
  for (int i = 0; i < 10; ++i) {
    const TrainStepResult result =
        twins.step({randn({3, config.in_channels, size, size}, images),
                    from_values<std::int64_t>({i % 10, (i + 1) % 10, 3}, {3})});
    ASSERT_TRUE(std::isfinite(result.loss)) << "step " << i;
  }
  twins.expect_same_state();
}

// In bf16, eager mode recomputes norms in its own way, and a program by a pass.
TEST(ResNet20InBf16, HasTheBitsOfEagerModeOverThreeSteps) {
  const auto make = [] { return models::create("resnet20", {3, 10, 32}); };
  Twins<nn::Module> twins(
      make, optim::SgdOptions{.lr = 0.01, .momentum = 0.9},
      {.dtype = DType::kBf16, .keep_batchnorm_fp32 = false, .cast_model_type = DType::kBf16});
  Generator images(4);
  for (int i = 0; i < 3; ++i) {
    const TrainStepResult result =
        twins.step({randn({3, 3, 32, 32}, images), from_values<std::int64_t>({i, i + 1, 3}, {3})});
    ASSERT_TRUE(std::isfinite(result.loss)) << "step " << i;
  }
  twins.expect_same_state();
}

std::unique_ptr<models::Gpt> small_gpt() {
  return std::make_unique<models::Gpt>(
      models::GptOptions{.vocabulary = 11, .positions = 8, .layers = 2, .heads = 2, .width = 16});
}

// With dropout, in f32 and in 16 bits. At level auto, a program makes fewer casts.
TEST(SmallGpt, HasTheBitsOfEagerModeOverFourSteps) {
  for (const char* level : {"O0", "O2"}) {
    SCOPED_TRACE(level);
    Twins<nn::Module, optim::AdamW> twins(small_gpt, optim::AdamWOptions{.lr = 0.01},
                                          {.level = level, .dtype = DType::kBf16}, std::nullopt,
                                          nn::NextTokenLoss());
    for (std::int64_t i = 0; i < 4; ++i) {
      const Tensor tokens = from_values<std::int64_t>({i, 1, 2, i + 3, 4, 5 + i}, {2, 3});
      const Tensor next = from_values<std::int64_t>({1, 2, 3, 4, 5 + i, 7}, {2, 3});
      ASSERT_TRUE(std::isfinite(twins.step({tokens, next}).loss)) << "step " << i;
    }
    twins.expect_same_state();
  }
}

INSTANTIATE_TEST_SUITE_P(Zoo, EveryModel, testing::ValuesIn(test::small_image_model_names()),
                         [](const auto& model) { return model.param; });

}  // namespace
}  // namespace mezzo::graph
