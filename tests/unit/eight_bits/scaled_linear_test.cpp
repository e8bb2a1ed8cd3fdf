// Products in eight bits and their gradients against the same sums in double over the numbers that
// the codes stand for; which products have them, and what the tape keeps.
#include "mezzo/ops/scaled_linear.h"

#include <cmath>

#include <gtest/gtest.h>

#include "mezzo/amp/autocast.h"
#include "mezzo/amp/call_observer.h"
#include "mezzo/amp/eight_bits.h"
#include "mezzo/amp/module_precision.h"
#include "mezzo/autograd/engine.h"
#include "mezzo/core/allocator.h"
#include "mezzo/nn/container.h"
#include "mezzo/ops/arithmetic.h"
#include "mezzo/ops/cast.h"
#include "mezzo/ops/conv2d.h"
#include "mezzo/ops/matmul.h"
#include "mezzo/ops/piecewise.h"
#include "mezzo/ops/reduce.h"
#include "mezzo/ops/scaled_matmul.h"
#include "tests/unit/amp/small_net.h"
#include "tests/unit/eight_bits/eight_bit_net.h"
#include "tests/unit/message_of.h"

namespace mezzo {
namespace {

Tensor in_double(const Tensor& x) { return cast(x, DType::kF64); }

// The numbers of x after rounding by a recipe, for a product that sums over columns or rows.
Tensor numbers_of(const Tensor& x, const ScalingRecipe& recipe, DType dtype, bool columns) {
  constexpr ScaleBy kBy[] = {ScaleBy::kTensor, ScaleBy::kTensor, ScaleBy::kLine, ScaleBy::kBlock};
  const ScaleBy by = kBy[static_cast<int>(recipe.scaling)];
  return in_double(unscaled(
      scaled_cast(x, {.dtype = dtype, .by = by, .columns = columns && by != ScaleBy::kTensor})));
}

// |got - want| is at most what f32 sums of `terms` products lose, and a rounding of the result.
void expect_near(const Tensor& got, const Tensor& want, const Tensor& magnitudes,
                 std::int64_t terms) {
  const auto a = got.to_vector<double>();
  const auto b = want.to_vector<double>();
  const auto sums = magnitudes.to_vector<double>();
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double allowed = static_cast<double>(terms + 4) * 0x1p-24 * sums[i] +
                           epsilon_of(got.dtype()) / 2 * 1.001 * std::abs(b[i]);
    ASSERT_LE(std::abs(a[i] - b[i]), allowed) << i << ": " << a[i] << " and " << b[i];
  }
}

class EveryRecipe : public testing::TestWithParam<Scaling> {};

TEST_P(EveryRecipe, ProductsAndGradientsAreThoseOfTheRoundedNumbers) {
  manual_seed(1);
  const ScalingRecipe recipe = usual_recipe(GetParam());
  for (const DType dtype : {DType::kF32, DType::kBf16, DType::kF16}) {
    const Tensor x = randn({2, 19, 70}).astype(dtype).set_requires_grad(true);
    const Tensor w = (randn({33, 70}) * 0.1).detach().set_requires_grad(true);
    const Tensor bias = randn({33}).set_requires_grad(true);
    const Tensor y = scaled_linear(x, w, bias, {recipe, dtype});
    ASSERT_EQ(y.shape(), (Shape{2, 19, 33}));
    ASSERT_EQ(y.dtype(), dtype);
    const Tensor rows = reshape(x.detach(), {38, 70});
    const Tensor nx = numbers_of(rows, recipe, DType::kE4m3, false);
    const Tensor nw = numbers_of(w.detach(), recipe, DType::kE4m3, false);
    expect_near(reshape(y, {38, 33}).detach(),
                matmul(nx, nw, {.transpose_b = true}) + in_double(bias.detach()),
                matmul(abs(nx), abs(nw), {.transpose_b = true}) + abs(in_double(bias.detach())),
                70);
    const Tensor g = randn({2, 19, 33}).astype(dtype);
    const std::vector<Tensor> grads = grad({&y, 1}, std::vector{x, w, bias}, {&g, 1});
    const Tensor g_rows = reshape(g, {38, 33});
    const Tensor by_rows = numbers_of(g_rows, recipe, recipe.grad_dtype, false);
    const Tensor by_columns = numbers_of(g_rows, recipe, recipe.grad_dtype, true);
    const Tensor w_columns = numbers_of(w.detach(), recipe, DType::kE4m3, true);
    const Tensor x_columns = numbers_of(rows, recipe, DType::kE4m3, true);
    EXPECT_EQ(grads[0].dtype(), dtype);
    EXPECT_EQ(grads[1].dtype(), DType::kF32);
    expect_near(reshape(grads[0], {38, 70}), matmul(by_rows, w_columns),
                matmul(abs(by_rows), abs(w_columns)), 33);
    expect_near(grads[1], matmul(by_columns, x_columns, {.transpose_a = true}),
                matmul(abs(by_columns), abs(x_columns), {.transpose_a = true}), 38);
    expect_near(grads[2], sum(in_double(g_rows), {0}), sum(abs(in_double(g_rows)), {0}), 38);
  }
}

TEST_P(EveryRecipe, TheGradientOfTheWeightMayStayIn16Bits) {
  manual_seed(2);
  ScalingRecipe recipe = usual_recipe(GetParam());
  recipe.wide_weight_grad = true;
  const Tensor x = randn({20, 64}).astype(DType::kBf16).set_requires_grad(true);
  const Tensor w = randn({16, 64}).set_requires_grad(true);
  const Tensor y = scaled_linear(x, w, Tensor(), {recipe});
  const Tensor g = randn({20, 16}).astype(DType::kBf16);
  const std::vector<Tensor> grads = grad({&y, 1}, std::vector{w}, {&g, 1});
  const Tensor want = matmul(in_double(g), in_double(x.detach()), {.transpose_a = true});
  expect_near(grads[0], want,
              matmul(abs(in_double(g)), abs(in_double(x.detach())), {.transpose_a = true}), 20);
}

TEST_P(EveryRecipe, ExactNumbersGiveExactProducts) {
  // Small integers, and a largest one that makes every scale a power of two.
  const auto integers = [](const Shape& shape, std::uint64_t seed) {
    Generator generator(seed);
    const Tensor x = empty(shape);
    for (std::int64_t i = 0; i < x.numel(); ++i) {
      x.mutable_data<float>()[i] = static_cast<float>(generator.below(7)) - 3;
    }
    for (std::int64_t i = 0; i < shape[0]; ++i) {
      for (std::int64_t j = i % 7; j < shape[1]; j += 7)
        x.mutable_data<float>()[i * shape[1] + j] = 7;
    }
    return x;
  };
  const Tensor x = integers({21, 63}, 1);
  const Tensor w = integers({14, 63}, 2);
  const Tensor y = scaled_linear(x, w, Tensor(), {usual_recipe(GetParam()), DType::kF32});
  EXPECT_EQ(y.to_vector<float>(), matmul(x, w, {.transpose_b = true}).to_vector<float>());
}

TEST_P(EveryRecipe, EmptyBatchesAreTaken) {
  const Tensor x = zeros({0, 8}).set_requires_grad(true);
  const Tensor w = ones({4, 8}).set_requires_grad(true);
  const Tensor y = scaled_linear(x, w, Tensor(), {usual_recipe(GetParam())});
  EXPECT_EQ(y.shape(), (Shape{0, 4}));
  sum(y.astype(DType::kF32)).backward();
  EXPECT_EQ(w.grad().to_vector<float>(), std::vector<float>(32, 0.0F));
}

INSTANTIATE_TEST_SUITE_P(Recipes, EveryRecipe, testing::ValuesIn(kScalings),
                         [](const auto& one) { return std::string(name_of(one.param)); });

amp::Policy policy_of_recipe(const ScalingRecipe& recipe) {
  return {.level = amp::Level::kO2, .eight_bits = amp::make_eight_bits(recipe)};
}

// The names of the operations that `body` calls in a region.
std::vector<std::string> called(const amp::Policy& policy, const std::function<void()>& body) {
  struct Names final : amp::CallObserver {
    void on_call(const amp::ObservedCall& call) override {
      if (call.op.view == nullptr) names.emplace_back(call.op.name);
    }
    std::vector<std::string> names;
  } names;
  const amp::Autocast region(policy);
  const amp::ObserveCalls observing(names);
  body();
  return names.names;
}

bool has_scaled(const std::vector<std::string>& names) {
  return std::ranges::find(names, "scaled_matmul") != names.end();
}

TEST(ScaledProducts, AreThoseWithOneMatrixForAllRows) {
  const amp::Policy policy = policy_of_recipe({});
  const Tensor x = randn({4, 8});
  const Tensor w = randn({6, 8});
  EXPECT_TRUE(has_scaled(called(policy, [&] { linear(x, w); })));
  EXPECT_TRUE(has_scaled(called(policy, [&] { matmul(x, transpose(w)); })));
  EXPECT_TRUE(has_scaled(called(policy, [&] {
    matmul(randn({2, 3, 8}), w, {.transpose_b = true});
  })));
  EXPECT_FALSE(has_scaled(called(policy, [&] { matmul(randn({2, 3, 8}), randn({2, 8, 3})); })));
  EXPECT_FALSE(has_scaled(called(policy, [&] { linear(x.astype(DType::kF64), w); })));
}

TEST(ScaledProducts, MatmulIsLinearOfTheTransposed) {
  manual_seed(3);
  const amp::Autocast region(policy_of_recipe({}));
  const Tensor x = randn({4, 8});
  const Tensor w = randn({6, 8});
  const auto want = linear(x, w).to_vector<float>();
  EXPECT_EQ(matmul(x, transpose(w)).to_vector<float>(), want);
  EXPECT_EQ(matmul(x, w, {.transpose_b = true}).to_vector<float>(), want);
  EXPECT_EQ(matmul(transpose(x), w, {.transpose_a = true, .transpose_b = true}).to_vector<float>(),
            want);
}

TEST(ScaledProducts, OnlyConvolutionsOfSinglePixelsHaveThem) {
  const amp::Policy policy = policy_of_recipe({});
  const Tensor x = randn({2, 8, 5, 5});
  const Tensor w = randn({4, 8, 1, 1});
  EXPECT_TRUE(has_scaled(called(policy, [&] { conv2d(x, w); })));
  EXPECT_FALSE(has_scaled(called(policy, [&] { conv2d(x, w, Tensor(), {.stride = 2}); })));
  EXPECT_FALSE(has_scaled(called(policy, [&] { conv2d(x, w, Tensor(), {.padding = 1}); })));
  EXPECT_FALSE(has_scaled(called(policy, [&] { conv2d(x, randn({4, 8, 3, 3})); })));
  EXPECT_FALSE(has_scaled(called(policy, [&] {
    conv2d(x, randn({4, 2, 1, 1}), Tensor(), {.groups = 4});
  })));
}

TEST(ScaledProducts, AConvolutionOfSinglePixelsIsAProductOfAllPixels) {
  manual_seed(4);
  const Tensor x = randn({2, 8, 5, 5}).set_requires_grad(true);
  const Tensor w = randn({4, 8, 1, 1}).set_requires_grad(true);
  const Tensor bias = randn({4});
  const amp::Autocast region(policy_of_recipe({}));
  const Tensor y = conv2d(x, w, bias);
  const Tensor pixels = reshape(permute(x.detach(), {0, 2, 3, 1}), {50, 8});
  const Tensor want = linear(pixels, reshape(w.detach(), {4, 8}), bias);
  EXPECT_EQ(permute(y, {0, 2, 3, 1}).to_vector<float>(), want.to_vector<float>());
  sum(y.astype(DType::kF32)).backward();
  EXPECT_EQ(x.grad().shape(), x.shape());
  EXPECT_EQ(w.grad().shape(), w.shape());
}

TEST(ScaledProducts, FirstAndLastLayerStayIn16Bits) {
  test::EightBitNet net;
  amp::set_policy(net, policy_of_recipe({}));
  const auto kept = [](nn::Module& module) {
    return [eight = amp::policy_of(module)->eight_bits](const nn::Module* part) {
      return eight->keeps(part);
    };
  };
  EXPECT_TRUE(kept(net)(net.find("conv")));
  EXPECT_TRUE(kept(net)(net.find("head")));
  EXPECT_FALSE(kept(net)(net.find("body.fc")));
  EXPECT_FALSE(kept(net)(net.find("pointwise")));
  nn::Linear alone(4, 4);
  amp::set_policy(alone, policy_of_recipe({}));
  EXPECT_TRUE(kept(alone)(&alone));
  // A part has no first and no last layer, and what the user keeps is kept.
  nn::Module& body = *net.find("body");
  amp::set_policy(body, policy_of_recipe({}));
  EXPECT_FALSE(kept(body)(net.find("body.fc")));
  amp::set_policy(
      net, {.level = amp::Level::kO2, .eight_bits = amp::make_eight_bits({}, {"pointwise"})});
  EXPECT_TRUE(kept(net)(net.find("pointwise")));
  EXPECT_TRUE(kept(net)(net.find("head")));
}

TEST(ScaledProducts, RulesAndSettingsOfModulesKeepOthers) {
  const auto products_with = [](const amp::MixedPrecisionOptions& options) {
    test::EightBitNet net;
    const amp::Policy policy = amp::apply_options(net, policy_of_recipe({}), options);
    const Tensor images = amp::small_batch(1).images;
    return std::ranges::count(called(policy, [&] { net(images); }), "scaled_matmul");
  };
  EXPECT_EQ(products_with({}), 2);
  EXPECT_EQ(products_with({.keep_float32 = {"body.fc"}}), 1);
  EXPECT_EQ(products_with({.keep_float32 = {"linear"}}), 1);
  EXPECT_EQ(products_with({.lower = {"pointwise"}}), 1);
  EXPECT_EQ(products_with({.lower = {"linear"}}), 1);
}

TEST(ScaledProducts, AWeightIsRoundedOncePerChange) {
  const Tensor x = randn({4, 8});
  const Tensor w = randn({6, 8}).set_requires_grad(true);
  const auto casts = [&](Scaling scaling) {
    return std::ranges::count(
        called(policy_of_recipe(usual_recipe(scaling)), [&] { linear(x, w); }), "scaled_cast");
  };
  for (const Scaling scaling : {Scaling::kCurrent, Scaling::kRows, Scaling::kMxfp8}) {
    const std::int64_t of_x = 1 + (scaling == Scaling::kCurrent ? 0 : 1);  // also for the gradient
    EXPECT_EQ(casts(scaling), of_x + 1) << name_of(scaling);
    EXPECT_EQ(casts(scaling), of_x) << name_of(scaling);
    copy_elements(randn({6, 8}), w);
    EXPECT_EQ(casts(scaling), of_x + 1) << name_of(scaling);
    copy_elements(randn({6, 8}), w);
  }
  EXPECT_EQ(casts(Scaling::kDelayed), 2);
  EXPECT_EQ(casts(Scaling::kDelayed), 2);
}

TEST(ScaledProducts, GradientsOfGradientsAreRefused) {
  const Tensor x = randn({4, 8}).set_requires_grad(true);
  const Tensor y = scaled_linear(x, randn({6, 8}), Tensor(), {});
  const Tensor total = sum(y.astype(DType::kF32));
  EXPECT_EQ(message_of<UnsupportedError>([&] {
              grad({&total, 1}, std::vector{x}, {}, {.create_graph = true});
            }),
            "[scaled_linear] gradients of gradients are not supported where products have eight "
            "bits. Compute in 16 bits or f32 for them");
}

TEST(ScaledProducts, WhatDoesNotFitIsRefused) {
  EXPECT_EQ(message_of<ArgumentError>([] {
              scaled_linear(ones({2, 3}), ones({4, 5}), Tensor(), {});
            }),
            "[linear] weight [out, in] expects x [..., in], x is f32[2, 3], weight f32[4, 5]. "
            "Change x, or the layer's in_features");
  EXPECT_EQ(message_of<ArgumentError>([] { amp::make_eight_bits({.dtype = DType::kBf16}); }),
            "[eight_bits] a recipe rounds to e4m3 or e5m2, this one to bf16 and e5m2. Choose among "
            "them");
  EXPECT_EQ(message_of<ArgumentError>([] { amp::make_eight_bits({.history = 0}); }),
            "[eight_bits] the history must be positive: 0. Use 1024");
  const ScaledTensor rows = scaled_cast(ones({4, 8}), {.by = ScaleBy::kLine});
  EXPECT_EQ(message_of<ArgumentError>([&] { scaled_matmul(rows, rows, {}); }).substr(0, 60),
            "[scaled_matmul] a has scales by line, b by line, and a is no");
}

// Bytes that the tape holds of the activations of a chain of products, whose results nobody else
// keeps.
std::int64_t kept_bytes(const std::optional<ScalingRecipe>& recipe) {
  constexpr std::int64_t kLayers = 8;
  constexpr std::int64_t kWidth = 32;
  std::vector<Tensor> weights;
  for (std::int64_t i = 0; i < kLayers; ++i) {
    weights.push_back(randn({kWidth, kWidth}).set_requires_grad(true));
  }
  amp::Policy policy{.level = amp::Level::kO2};
  if (recipe.has_value()) policy.eight_bits = amp::make_eight_bits(*recipe);
  const amp::Autocast region(policy);
  const std::int64_t before = cpu_allocator().stats().live_bytes;
  Tensor y = randn({16384, kWidth}).astype(DType::kBf16);
  for (const Tensor& weight : weights) y = linear(y, weight);
  const std::int64_t result = y.numel() * 2;
  return cpu_allocator().stats().live_bytes - before - result;
}

TEST(ScaledProducts, SavedActivationsTakeHalfOfBf16sBytes) {
  const auto in_16 = static_cast<double>(kept_bytes(std::nullopt));
  for (const Scaling scaling : kScalings) {
    const double ratio = static_cast<double>(kept_bytes(usual_recipe(scaling))) / in_16;
    RecordProperty(name_of(scaling), std::to_string(ratio));
    // Besides, codes of weights are kept, histories of delayed scaling, and the scales: for blocks
    // one byte for 32 of codes.
    EXPECT_GT(ratio, 0.49) << name_of(scaling);
    EXPECT_LT(ratio, scaling == Scaling::kMxfp8 ? 0.52 : 0.51) << name_of(scaling);
  }
}

}  // namespace
}  // namespace mezzo
