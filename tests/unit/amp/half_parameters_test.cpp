#include "mezzo/amp/half_parameters.h"

#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mezzo/amp/grad_scaler.h"
#include "mezzo/core/random.h"
#include "mezzo/nn/nn.h"
#include "mezzo/ops/arithmetic.h"
#include "mezzo/ops/matmul.h"
#include "mezzo/ops/reduce.h"
#include "mezzo/optim/sgd.h"
#include "tests/unit/amp/warnings.h"

namespace mezzo::amp {
namespace {

// Convolution with bias, the normalisations, a linear layer whose weight is used twice.
class EveryLayer final : public nn::Module {
 public:
  EveryLayer() {
    add("conv", conv_);
    add("norm", norm_);
    add("group_norm", group_norm_);
    add("fc", fc_);
    add("layer_norm", layer_norm_);
    add_parameter("tied", tied_);
  }
  Tensor forward(const Tensor& x) override {
    const Tensor y = nn::Flatten()(group_norm_(norm_(conv_(x))));
    return linear_of(layer_norm_(fc_(y)));
  }

 private:
  Tensor linear_of(const Tensor& x) const { return linear(x, tied_); }

  nn::Conv2d conv_{2, 4, 3, {.bias = true}};
  nn::BatchNorm2d norm_{4};
  nn::GroupNorm group_norm_{2, 4};
  nn::Linear fc_{16, 16};
  nn::LayerNorm layer_norm_{16};
  Tensor tied_ = *fc_.own_parameters()[0].tensor;
};

Tensor images() {
  manual_seed(5);
  return randn({8, 2, 4, 4});
}

DType dtype_of(nn::Module& net, std::string_view name) {
  for (const NamedTensor& entry : net.state()) {
    if (entry.name == name) return entry.tensor.dtype();
  }
  ADD_FAILURE() << "there is no " << name;
  return DType::kBool;
}

std::vector<std::vector<float>> values_of(const nn::Module& net) {
  std::vector<std::vector<float>> result;
  for (const NamedTensor& entry : net.state()) result.push_back(entry.tensor.to_vector<float>());
  return result;
}

TEST(HalfParameters, KeepsRmsNorm) {
  nn::Sequential net;
  net.emplace<nn::Linear>(4, 4);
  net.emplace<nn::RmsNorm>(4);
  half_parameters(net, DType::kBf16);
  EXPECT_EQ(dtype_of(net, "0.weight"), DType::kBf16);
  EXPECT_EQ(dtype_of(net, "1.weight"), DType::kF32);
}

TEST(HalfParameters, RoundsInPlaceAndKeepsNormalisation) {
  EveryLayer net;
  const auto before = net.state();
  const std::int64_t count = net.parameter_count();
  net.parameters()[0].set_grad(ones(net.parameters()[0].shape()));
  EXPECT_EQ(&half_parameters(net, DType::kBf16), &net);
  EXPECT_EQ(net.parameter_count(), count) << "the tied weight is still one";
  for (const char* name : {"conv.weight", "conv.bias", "fc.weight", "fc.bias", "tied"}) {
    EXPECT_EQ(dtype_of(net, name), DType::kBf16) << name;
  }
  for (const char* name :
       {"norm.weight", "norm.bias", "norm.running_var", "group_norm.weight", "layer_norm.bias"}) {
    EXPECT_EQ(dtype_of(net, name), DType::kF32) << name;
  }
  for (const Tensor& parameter : net.parameters()) {
    EXPECT_TRUE(parameter.requires_grad() && parameter.is_leaf());
    EXPECT_FALSE(parameter.grad().defined());
  }
  const auto after = net.state();
  for (std::size_t i = 0; i < before.size(); ++i) {
    EXPECT_EQ(after[i].tensor.to_vector<float>(),
              before[i].tensor.detach().astype(after[i].tensor.dtype()).to_vector<float>())
        << after[i].name;
  }
}

TEST(HalfParameters, NormalisationFollowsIfAsked) {
  EveryLayer net;
  half_parameters(net, DType::kF16, {.keep_batchnorm_fp32 = false});
  for (const char* name : {"norm.weight", "norm.bias", "layer_norm.weight"}) {
    EXPECT_EQ(dtype_of(net, name), DType::kF16) << name;
  }
  EXPECT_EQ(dtype_of(net, "norm.running_mean"), DType::kF32);
  EXPECT_EQ(dtype_of(net, "norm.num_batches_tracked"), DType::kI64);
}

TEST(HalfParameters, FullParametersIsTheWayBack) {
  EveryLayer net;
  half_parameters(net, DType::kBf16, {.keep_batchnorm_fp32 = false});
  const auto values = values_of(net);
  full_parameters(net);
  EXPECT_EQ(values_of(net), values);
  for (const Tensor& parameter : net.parameters()) EXPECT_EQ(parameter.dtype(), DType::kF32);
  EXPECT_EQ(net.find("fc")->own_parameters()[0].tensor->impl(),
            net.own_parameters()[0].tensor->impl())
      << "the tied weight is tied again";
}

TEST(HalfParameters, FrozenParametersStayFrozen) {
  nn::Linear layer(3, 2);
  layer.own_parameters()[0].tensor->set_requires_grad(false);
  half_parameters(layer, DType::kBf16);
  EXPECT_FALSE(layer.own_parameters()[0].tensor->requires_grad());
  EXPECT_TRUE(layer.own_parameters()[1].tensor->requires_grad());
}

TEST(HalfParameters, SayWhichNumbersF16CannotHold) {
  nn::Linear linear(2, 2);
  fill(linear.weight().detach(), 1e6);
  half_parameters(linear, DType::kBf16);
  EXPECT_THAT(warnings.text(), testing::Not(testing::HasSubstr("infinite in f16")));
  full_parameters(linear);
  half_parameters(linear, DType::kF16);
  EXPECT_THAT(warnings.text(), testing::HasSubstr("`weight` has values that are infinite in f16"));
  linear.load_state({{"weight", zeros({2, 2})}, {"bias", full({2}, 7e4)}});
  EXPECT_THAT(warnings.text(), testing::HasSubstr("`bias` has values that are infinite in f16"));
}

// Includes the gradients of parameters that do not change dtype.
TEST(HalfParameters, DropGradientsEitherWay) {
  EveryLayer net;
  const auto with_gradients = [&] {
    sum(net(images())).backward();
    for (const Tensor& param : net.parameters()) EXPECT_TRUE(param.grad().defined());
  };
  with_gradients();
  half_parameters(net, DType::kBf16);
  for (const Tensor& param : net.parameters()) EXPECT_FALSE(param.grad().defined());
  with_gradients();
  full_parameters(net);
  for (const Tensor& param : net.parameters()) EXPECT_FALSE(param.grad().defined());
}

// Checks parameters from bf16, which has f32's range, and from f32.
TEST(HalfParameters, FromBf16SayWhichNumbersF16CannotHold) {
  class Wide final : public nn::Module {
   public:
    Wide() { add_parameter("wide_in_bf16", weight_); }
    Tensor forward(const Tensor& x) override { return x * weight_; }

   private:
    Tensor weight_ = full({2}, 1e6).set_requires_grad(true);
  } net;
  half_parameters(net, DType::kBf16);
  EXPECT_THAT(warnings.text(), testing::Not(testing::HasSubstr("`wide_in_bf16`")));
  half_parameters(net, DType::kF16);
  EXPECT_THAT(warnings.text(), testing::HasSubstr("[f16] `wide_in_bf16` has values"));
}

TEST(HalfParameters, RefusesOtherDTypes) {
  nn::Linear layer(3, 2);
  EXPECT_THROW(half_parameters(layer, DType::kF32), ArgumentError);
  EXPECT_THROW(half_parameters(layer, DType::kF64), ArgumentError);
  EXPECT_EQ(layer.weight().dtype(), DType::kF32);
}

TEST(HalfParameters, StatesOfEitherKindLoadIntoTheOther) {
  EveryLayer full;
  EveryLayer half;
  half_parameters(half, DType::kBf16);
  half.load_state(full.state());
  EXPECT_EQ(dtype_of(half, "fc.weight"), DType::kBf16);
  full.load_state(half.state());
  EXPECT_EQ(values_of(full), values_of(half));
}

// In f32, 16-bit parameters give the results of f32 parameters with the same values.
TEST(HalfParameters, WithoutARegionTheComputationIsThatOfTheWidenedValues) {
  for (const DType dtype : kLowerDTypes) {
    manual_seed(1);
    EveryLayer half;
    half_parameters(half, dtype, {.keep_batchnorm_fp32 = false});
    EveryLayer full;
    full.load_state(half.state());
    const Tensor x = images();
    const Tensor y = half(x);
    const Tensor want = full(x);
    EXPECT_EQ(y.dtype(), DType::kF32);
    EXPECT_EQ(y.to_vector<float>(), want.to_vector<float>());
    sum(y * y).backward();
    sum(want * want).backward();
    for (const NamedTensor& entry : half.named_parameters()) {
      const Tensor& grad = entry.tensor.grad();
      // The gradient of the weight that is used twice is a sum.
      EXPECT_EQ(grad.dtype(), entry.name == "tied" ? DType::kF32 : dtype) << entry.name;
      EXPECT_EQ(grad.shape(), entry.tensor.shape());
    }
  }
}

// The gradient of a 16-bit bias is the f32 one, rounded.
TEST(HalfParameters, GradientsAreRoundedOnce) {
  for (const DType dtype : kLowerDTypes) {
    nn::Linear half(3, 2);
    nn::Linear full(3, 2);
    half_parameters(half, dtype);
    full.load_state(half.state());
    const Tensor x = images();
    const Tensor rows = alias(x, {80, 3}, {3, 1}, 0);
    sum(half(rows)).backward();
    sum(full(rows)).backward();
    for (std::size_t i = 0; i < 2; ++i) {
      EXPECT_EQ(half.parameters()[i].grad().to_vector<float>(),
                full.parameters()[i].grad().astype(dtype).to_vector<float>());
    }
  }
}

// Gradients of 1.5 * 2^-24, scaled by 2^12, fit f16; divided in f16 they would be 2^-23.
TEST(HalfParameters, UnscalingWidensTheirGradients) {
  const Tensor weight = full({3}, 1, DType::kF16).set_requires_grad(true);
  optim::Sgd optimizer({weight}, {.lr = 1});
  GradScaler scaler({.init_scale = 4096});
  const double tiny = std::ldexp(1.5, -24);
  scaler.scale(sum(weight.astype(DType::kF32) * tiny)).backward();
  EXPECT_EQ(weight.grad().dtype(), DType::kF16);
  scaler.unscale_(optimizer);
  EXPECT_EQ(weight.grad().dtype(), DType::kF32);
  EXPECT_EQ(weight.grad().to_vector<float>()[0], static_cast<float>(tiny));
  EXPECT_TRUE(scaler.step(optimizer).stepped);
}

}  // namespace
}  // namespace mezzo::amp
