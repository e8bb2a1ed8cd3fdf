// Tests whole networks with 16-bit parameters.
#include <gtest/gtest.h>

#include "mezzo/amp/grad_scaler.h"
#include "mezzo/amp/half_parameters.h"
#include "mezzo/amp/module_precision.h"
#include "mezzo/core/random.h"
#include "mezzo/models/model.h"
#include "mezzo/ops/losses.h"
#include "mezzo/optim/sgd.h"
#include "tests/unit/small_models.h"

namespace mezzo::amp {
namespace {

using optim::ParamUpdate;

class EveryModel : public testing::TestWithParam<std::string> {};

struct Setting {
  DType dtype;
  Level level;
  bool keep_batchnorm_fp32;
};

// All settings for small networks; the large ones consist of the same layers.
std::vector<Setting> settings_for(const std::string& name) {
  const bool small = name == "lenet5" || name == "mlp" || name == "resnet20";
  if (!small) return {{DType::kBf16, Level::kAuto, true}, {DType::kF16, Level::kO3, false}};
  std::vector<Setting> result;
  for (const DType dtype : kLowerDTypes) {
    for (const Level level : kLevels) {
      result.push_back({dtype, level, true});
      result.push_back({dtype, level, false});
    }
  }
  return result;
}

void expect_gradients(const std::string& name, const Setting& setting) {
  manual_seed(1);
  const std::int64_t size = name == "lenet5" ? 28 : 16;
  const auto model = models::create(name, {.in_channels = 2, .num_classes = 5, .image_size = size});
  half_parameters(*model, setting.dtype, {.keep_batchnorm_fp32 = setting.keep_batchnorm_fp32});
  auto_mixed_precision(*model, setting.level, setting.dtype);
  const Tensor logits = (*model)(randn({2, 2, size, size}));
  const Tensor labels = from_values<std::int64_t>({1, 4}, {2});
  cross_entropy(logits.astype(DType::kF32), labels).backward();
  for (const NamedTensor& parameter : model->named_parameters()) {
    const Tensor& grad = parameter.tensor.grad();
    ASSERT_TRUE(grad.defined()) << parameter.name;
    EXPECT_EQ(grad.dtype(), parameter.tensor.dtype()) << parameter.name;
    EXPECT_EQ(grad.shape(), parameter.tensor.shape()) << parameter.name;
  }
}

TEST_P(EveryModel, GradientsReachEveryParameterAtEveryLevel) {
  for (const Setting& setting : settings_for(GetParam())) {
    SCOPED_TRACE(concat(setting.dtype, " ", setting.level, " ", setting.keep_batchnorm_fp32));
    expect_gradients(GetParam(), setting);
  }
}

INSTANTIATE_TEST_SUITE_P(Models, EveryModel, testing::ValuesIn(test::small_image_model_names()),
                         [](const auto& test) { return test.param; });

// The losses of some steps on one batch.
std::vector<double> train(const std::string& name, DType dtype, ParamUpdate update) {
  manual_seed(1);
  const std::int64_t size = name == "lenet5" ? 28 : 16;
  const auto model = models::create(name, {.in_channels = 2, .num_classes = 5, .image_size = size});
  half_parameters(*model, dtype);
  auto_mixed_precision(*model, Level::kO2, dtype);
  const Tensor x = randn({8, 2, size, size});
  const Tensor labels = from_values<std::int64_t>({0, 1, 2, 3, 4, 0, 1, 2}, {8});
  optim::Sgd sgd(model->parameters(), {.lr = 0.05, .momentum = 0.9, .param_update = update});
  GradScaler scaler({.init_scale = 1024}, dtype == DType::kF16);
  std::vector<double> losses;
  for (int step = 0; step < 14; ++step) {
    const Tensor loss = cross_entropy((*model)(x), labels);
    losses.push_back(loss.item());
    scaler.scale(loss).backward();
    EXPECT_TRUE(scaler.step(sgd).stepped);
    if (scaler.is_enabled()) scaler.update();
    sgd.zero_grad();
  }
  return losses;
}

TEST(HalfParameters, NetworksTrainInEveryWay) {
  for (const char* name : {"lenet5", "resnet20"}) {
    for (const DType dtype : kLowerDTypes) {
      for (const ParamUpdate update :
           {ParamUpdate::kMaster, ParamUpdate::kStochastic, ParamUpdate::kKahan}) {
        const std::vector<double> losses = train(name, dtype, update);
        EXPECT_LT(losses.back(), 0.9 * losses.front())
            << name << ' ' << name_of(dtype) << ' ' << static_cast<int>(update);
        EXPECT_EQ(train(name, dtype, update), losses) << "the same bits again";
      }
    }
  }
}

}  // namespace
}  // namespace mezzo::amp
