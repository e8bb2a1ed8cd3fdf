// Compares with PyTorch's results for the same weights and images. make_golden.py writes
// golden.json and state_names.json.
#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "mezzo/amp/train_step.h"
#include "mezzo/models/model.h"
#include "mezzo/nn/inference.h"
#include "mezzo/ops/losses.h"
#include "mezzo/ops/reduce.h"
#include "mezzo/optim/sgd.h"
#include "tests/golden/formula.h"
#include "tests/unit/tiny_unet.h"

namespace mezzo::golden {
namespace {

using Json = nlohmann::json;

Json read_json(const std::string& name) {
  return Json::parse(std::ifstream(std::string(MEZZO_GOLDEN_FOLDER) + "/" + name));
}

// Trained like an image classifier, on the mean logits of its pixels.
class Unet final : public test::TinyUnet {
 public:
  using TinyUnet::TinyUnet;
  Tensor forward(const Tensor& x) override { return mean(TinyUnet::forward(x), {2, 3}); }
};

std::unique_ptr<nn::Module> create(const std::string& name, const models::ModelConfig& config) {
  if (name == "unet") return std::make_unique<Unet>(config.in_channels, config.num_classes);
  return models::create(name, config);
}

class Golden : public testing::TestWithParam<std::string> {
 protected:
  Golden()
      : golden_(read_json("golden.json").at(GetParam())),
        images_{number("batch"), number("channels"), number("pixels"), number("pixels")},
        net_(create(GetParam(), {.in_channels = number("channels"),
                                 .num_classes = number("classes"),
                                 .image_size = number("pixels")})) {
    fill(*net_);
  }

  std::int64_t number(const char* key) const { return golden_.at(key).get<std::int64_t>(); }
  Batch batch(std::uint32_t i) const { return make_batch(i, images_, number("classes")); }

  // The largest difference from PyTorch's f32 logits, relative to the largest of them.
  double logit_error(const amp::Policy& policy) {
    const nn::Inference inference(*net_);
    const auto logits = amp::forward(*net_, batch(0).images, policy).to_vector<double>();
    std::vector<double> expected;
    for (const Json& row : golden_.at("logits")) {
      for (const Json& logit : row) expected.push_back(logit.get<double>());
    }
    EXPECT_EQ(logits.size(), expected.size());
    double largest = 0;
    double error = 0;
    for (std::size_t i = 0; i < expected.size(); ++i) {
      largest = std::max(largest, std::abs(expected[i]));
      error = std::max(error, std::abs(logits.at(i) - expected[i]));
    }
    return error / largest;
  }

  Json golden_;
  Shape images_;
  std::unique_ptr<nn::Module> net_;
};

TEST_P(Golden, LogitsInF32) { EXPECT_LE(logit_error({.level = amp::Level::kO0}), 1e-4); }

TEST_P(Golden, LogitsInBf16) {
  EXPECT_LE(logit_error({.level = amp::Level::kO2, .lower = DType::kBf16}), 2e-2);
}

TEST_P(Golden, LossesOf20StepsOfSgd) {
  optim::Sgd optimizer(net_->parameters(), {.lr = golden_.at("lr").get<double>(),
                                            .momentum = golden_.at("momentum").get<double>()});
  const auto expected = golden_.at("losses").get<std::vector<double>>();
  ASSERT_EQ(expected.size(), 20U);
  for (std::size_t step = 0; step < expected.size(); ++step) {
    const Batch batch = this->batch(static_cast<std::uint32_t>(step));
    const Tensor loss = cross_entropy((*net_)(batch.images), batch.labels);
    EXPECT_NEAR(loss.item(), expected[step], 1e-3) << "step " << step;
    optimizer.zero_grad();
    loss.backward();
    optimizer.step();
  }
}

INSTANTIATE_TEST_SUITE_P(Networks, Golden,
                         testing::Values("lenet5", "mlp", "unet", "resnet18", "resnet50"),
                         [](const auto& test) { return test.param; });

class StateNames : public testing::TestWithParam<std::string> {};

TEST_P(StateNames, AreTorchvisions) {
  const Json expected = read_json("state_names.json").at(GetParam());
  const auto net = models::create(GetParam(), models::usual_config(GetParam()));
  std::map<std::string, std::vector<std::int64_t>> state;
  for (const NamedTensor& entry : net->state()) {
    state[entry.name] = {entry.tensor.shape().begin(), entry.tensor.shape().end()};
  }
  EXPECT_EQ(state, (expected.get<std::map<std::string, std::vector<std::int64_t>>>()));
}

INSTANTIATE_TEST_SUITE_P(Networks, StateNames,
                         testing::Values("resnet18", "resnet34", "resnet50", "resnet101"),
                         [](const auto& test) { return test.param; });

}  // namespace
}  // namespace mezzo::golden
