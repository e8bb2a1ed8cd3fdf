#include "mezzo/amp/custom_function.h"

#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mezzo/amp/autocast.h"
#include "mezzo/autograd/engine.h"
#include "mezzo/ops/arithmetic.h"
#include "mezzo/ops/cast.h"
#include "mezzo/ops/dispatcher/grad_mode.h"
#include "mezzo/ops/matmul.h"
#include "mezzo/ops/pointwise.h"
#include "mezzo/ops/reduce.h"
#include "tests/unit/message_of.h"

namespace mezzo::amp {
namespace {

using testing::HasSubstr;
using Tensors = std::vector<Tensor>;
using Values = std::vector<float>;

Tensor leaf(std::initializer_list<float> values) {
  Tensor tensor = from_values(values, {static_cast<std::int64_t>(values.size())});
  return tensor.set_requires_grad(true);
}

Values gradient_of(const Tensor& tensor) { return tensor.grad().to_vector<float>(); }

// x * x with a gradient of 2 x, from the saved input.
CustomFunction square(const CustomFunctionOptions& options = {}) {
  return {[](FunctionContext& context, std::span<const Tensor> in) {
            context.save({in[0]});
            return Tensors{in[0] * in[0]};
          },
          [](FunctionContext& context, std::span<const Tensor> grads) {
            return Tensors{grads[0] * context.saved()[0] * 2.0};
          },
          options};
}

// a times b; both passes record the dtypes that they see.
struct Product {
  struct Seen {
    bool region = false;
    bool recording = false;
    DType lower = DType::kF32;
    DType input = DType::kF32;
    DType product = DType::kF32;
  };
  Seen forward{};
  Seen backward{};

  static Seen look(const Tensor& a, const Tensor& product) {
    return {is_autocast_enabled(), grad_enabled(), autocast_policy().lower, a.dtype(),
            product.dtype()};
  }

  CustomFunction function(const CustomFunctionOptions& options = {}) {
    return {[this](FunctionContext& context, std::span<const Tensor> in) {
              context.save(in);
              Tensors results{matmul(in[0], in[1])};
              forward = look(in[0], results[0]);
              return results;
            },
            [this](FunctionContext& context, std::span<const Tensor> grads) {
              const Tensors& in = context.saved();
              Tensors results{matmul(grads[0], in[1], {.transpose_b = true}),
                              matmul(in[0], grads[0], {.transpose_a = true})};
              backward = look(in[0], results[0]);
              return results;
            },
            options};
  }
};

Tensor square_matrix(float value) {
  Tensor tensor = full({2, 2}, value);
  return tensor.set_requires_grad(true);
}

TEST(CustomFunction, HasTheGradientThatItSays) {
  const Tensor x = leaf({1, -2, 3});
  const CustomFunction twice_the_gradient(
      [](FunctionContext&, std::span<const Tensor> in) { return Tensors{in[0] * 1.0}; },
      [](FunctionContext&, std::span<const Tensor> grads) { return Tensors{grads[0] * 2.0}; });
  const Tensor y = twice_the_gradient({square()({x})[0]})[0];
  EXPECT_EQ(y.to_vector<float>(), (Values{1, 4, 9}));
  sum(y).backward();
  EXPECT_EQ(gradient_of(x), (Values{4, -8, 12}));
}

TEST(CustomFunction, RecordsNothingInsideAndNothingWhereNobodyWantsGradients) {
  Product product;
  product.function()({square_matrix(1), square_matrix(2)});
  EXPECT_FALSE(product.forward.recording);
  const NoGrad guard;
  EXPECT_FALSE(square()({leaf({1})})[0].requires_grad());
}

TEST(CustomFunction, BothPassesRunInTheRegionOfTheForwardPass) {
  Product product;
  const Tensor a = square_matrix(1);
  Tensor loss;
  {
    const Autocast region(DType::kF16);
    loss = sum(product.function()({a, square_matrix(2)})[0]);
  }
  EXPECT_TRUE(product.forward.region);
  EXPECT_EQ(product.forward.input, DType::kF32);  // the operations inside cast
  EXPECT_EQ(product.forward.product, DType::kF16);
  std::thread([&] {
    const Autocast other(DType::kBf16);
    loss.backward();
    EXPECT_EQ(autocast_policy().lower, DType::kBf16);
  }).join();
  EXPECT_TRUE(product.backward.region);
  EXPECT_EQ(product.backward.lower, DType::kF16);
  EXPECT_EQ(product.backward.product, DType::kF16);
  EXPECT_EQ(a.grad().dtype(), DType::kF32);
  EXPECT_EQ(gradient_of(a), Values(4, 4));
}

TEST(CustomFunction, WithoutARegionTheBackwardPassHasNoneEither) {
  Product product;
  const Tensor y = sum(product.function()({square_matrix(1), square_matrix(2)})[0]);
  const Autocast region(DType::kBf16);
  y.backward();
  EXPECT_FALSE(product.backward.region);
  EXPECT_EQ(product.backward.product, DType::kF32);
}

TEST(CustomFunction, CastInputsSwitchesRegionsOffInBothPasses) {
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kBf16}) {
    Product product;
    const Tensor a = square_matrix(1);
    const Tensor b = square_matrix(2);
    Tensor y;
    {
      const Autocast region(DType::kF16);
      y = product.function({.cast_inputs = dtype})({a, b})[0];
      sum(y).backward();
      EXPECT_TRUE(is_autocast_enabled());
    }
    EXPECT_EQ(y.dtype(), dtype);
    EXPECT_FALSE(product.forward.region);
    EXPECT_FALSE(product.backward.region);
    EXPECT_EQ(product.forward.input, dtype);
    EXPECT_EQ(product.backward.product, dtype);
    EXPECT_EQ(a.grad().dtype(), DType::kF32);
    EXPECT_EQ(gradient_of(a), Values(4, 4));
    EXPECT_EQ(gradient_of(b), Values(4, 2));
  }
}

TEST(CustomFunction, CastInputsDoesNothingOutsideOfRegionsAndToOtherDTypes) {
  Product product;
  const CustomFunction function = product.function({.cast_inputs = DType::kF16});
  function({square_matrix(1), square_matrix(2)});
  EXPECT_EQ(product.forward.input, DType::kF32);
  const Autocast region(DType::kF16);
  function({ones({2, 2}, DType::kF64), ones({2, 2}, DType::kF64)});
  EXPECT_EQ(product.forward.input, DType::kF64);
}

TEST(CustomFunction, ResultsThatNobodyUsedHaveGradientsOfZero) {
  const CustomFunction both(
      [](FunctionContext& context, std::span<const Tensor> in) {
        EXPECT_TRUE(context.needs(0));
        EXPECT_FALSE(context.needs(1));
        return Tensors{in[0] * 2.0, in[0].astype(DType::kF16) * 3.0};
      },
      [](FunctionContext& context, std::span<const Tensor> grads) {
        EXPECT_TRUE(context.needs(0));
        EXPECT_FALSE(context.needs(1));
        EXPECT_EQ(grads[1].dtype(), DType::kF16);
        EXPECT_EQ(grads[1].to_vector<float>(), (Values{0, 0}));
        return Tensors{grads[0] * 2.0 + grads[1] * 3.0, Tensor()};
      });
  const Tensor x = leaf({1, 2});
  sum(both({x, ones({5})})[0]).backward();
  EXPECT_EQ(gradient_of(x), (Values{2, 2}));
}

TEST(CustomFunction, GradientsOfGradientsFollowSavedInputsAndResults) {
  const CustomFunction exponential(
      [](FunctionContext& context, std::span<const Tensor> in) {
        const Tensor y = mezzo::exp(in[0]);
        context.save({y});
        return Tensors{y};
      },
      [](FunctionContext& context, std::span<const Tensor> grads) {
        return Tensors{grads[0] * context.saved()[0]};
      });
  const Tensor x = leaf({0, 1});
  const auto second = [&](const CustomFunction& function) {
    const Tensors loss{sum(function({x})[0])};
    const Tensors first{sum(grad(loss, Tensors{x}, {}, {.create_graph = true})[0])};
    return grad(first, Tensors{x})[0].to_vector<float>();
  };
  EXPECT_EQ(second(square()), (Values{2, 2}));
  EXPECT_EQ(second(exponential), mezzo::exp(x.detach()).to_vector<float>());
}

TEST(CustomFunction, GradientsOfGradientsThroughOtherTensorsAreRefused) {
  const CustomFunction function(
      [](FunctionContext& context, std::span<const Tensor> in) {
        context.save({in[0] * 2.0});
        return Tensors{in[0] * in[0]};
      },
      [](FunctionContext& context, std::span<const Tensor> grads) {
        return Tensors{grads[0] * context.saved()[0]};
      });
  const Tensor x = leaf({3});
  const Tensors loss{sum(function({x})[0])};
  EXPECT_THAT(
      message_of<ArgumentError>([&] { grad(loss, Tensors{x}, {}, {.create_graph = true}); }),
      HasSubstr("neither an input nor a result"));
  EXPECT_EQ(grad(loss, Tensors{x})[0].item(), 6);
}

TEST(CustomFunction, GivingBackItsInputMakesNoCycle) {
  const CustomFunction same(
      [](FunctionContext&, std::span<const Tensor> in) { return Tensors{in[0]}; },
      [](FunctionContext&, std::span<const Tensor> grads) { return Tensors{grads[0] * -1.0}; });
  const Tensor x = leaf({3});
  const Tensor y = same({x})[0];
  EXPECT_FALSE(y.is_leaf());
  sum(y).backward();
  EXPECT_EQ(gradient_of(x), (Values{-1}));
  EXPECT_TRUE(x.is_leaf());
  const NoGrad guard;
  EXPECT_FALSE(same({x})[0].requires_grad());
}

TEST(CustomFunction, WhatWasSavedMustNotChangeAndIsFreed) {
  const Tensor x = leaf({1, 2});
  const Tensor changed = sum(square()({x})[0]);
  fill(x, 5);
  EXPECT_THAT(message_of<ArgumentError>([&] { changed.backward(); }),
              HasSubstr("[custom_function] the saved tensor 0 (f32[2]) is needed"));
  const Tensor twice = sum(square()({x})[0]);
  twice.backward(Tensor(), true);
  twice.backward();
  EXPECT_EQ(gradient_of(x), (Values{20, 20}));
  EXPECT_THAT(message_of<ArgumentError>([&] { twice.backward(); }), HasSubstr("retain_graph"));
}

TEST(CustomFunction, ALongTapeOfThemIsFreedWithoutRecursion) {
  const CustomFunction function = square();
  Tensor y = leaf({1});
  for (int i = 0; i < 100000; ++i) y = function({y})[0];
  EXPECT_EQ(y.item(), 1);
}

TEST(CustomFunction, WrongResultsSayWhatIsWrong) {
  const auto message_for = [](const CustomFunction::Pass& forward,
                              const CustomFunction::Pass& backward) {
    const CustomFunction function(forward, backward);
    const Tensor x = leaf({1, 2});
    return message_of<ArgumentError>([&] { sum(function({x})[0]).backward(); });
  };
  const auto gives = [](Tensors results) {
    return [results = std::move(results)](FunctionContext&, std::span<const Tensor>) {
      return results;
    };
  };
  const auto good = gives({ones({2})});
  EXPECT_THAT(message_for(gives({}), good), HasSubstr("returns 0 results. Give 1 to 4"));
  EXPECT_THAT(message_for(gives({Tensor()}), good), HasSubstr("result 0 of the forward pass"));
  EXPECT_THAT(message_for(gives({arange(2, DType::kI64)}), good), HasSubstr("i64[2]"));
  EXPECT_THAT(message_for(gives({zeros({2}, DType::kE4m3)}), good),
              HasSubstr("e4m3[2], which cannot have a gradient"));
  EXPECT_THAT(message_for(good, gives({})), HasSubstr("returns 0 gradients for 1 inputs"));
  EXPECT_THAT(message_for(good, gives({ones({3})})),
              HasSubstr("returns f32[3] as the gradient of input 0, which is f32[2]"));
  EXPECT_THROW(CustomFunction(nullptr, good), ArgumentError);
  EXPECT_THROW(CustomFunction(good, good, {.cast_inputs = DType::kF64}), ArgumentError);
}

}  // namespace
}  // namespace mezzo::amp
