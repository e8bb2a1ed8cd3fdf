#include <bit>
#include <limits>

#include <gtest/gtest.h>

#include "mezzo/graph/passes/passes.h"
#include "mezzo/ops/arithmetic.h"
#include "mezzo/ops/conv2d.h"
#include "mezzo/ops/matmul.h"
#include "mezzo/ops/pointwise.h"
#include "mezzo/ops/reduce.h"
#include "mezzo/ops/relu.h"
#include "mezzo/ops/shape_ops.h"
#include "tests/unit/graph/pass_texts.h"
#include "tests/unit/graph/plain_training.h"

namespace mezzo::graph {
namespace {

TEST(FuseActivation, BehindALinearLayer) {
  expect_pass(kFuseActivation, R"(program(x: bf16[4, 8], w: bf16[8, 8], b: f32[8]) {
  %0: bf16[4, 8] = linear(x, w, b) @net.fc1
  %1: bf16[4, 8] = relu(%0) over(%0) @net
  %2: bf16[4, 8] = linear(%1, w, _) @net.fc2
  %3: bf16[4, 8] = gelu(%2) {form=exact} @net.gelu
  %4: bf16[4, 8] = linear(%3, w, _) @net.fc3
  %5: bf16[4, 8] = gelu(%4) {form=tanh}
  return %5
}
)",
              3, R"(program(x: bf16[4, 8], w: bf16[8, 8], b: f32[8]) {
  %0: bf16[4, 8] = linear_activation(x, w, b) {activation=relu} @net
  %1: bf16[4, 8] = linear_activation(%0, w, _) {activation=gelu} @net.gelu
  %2: bf16[4, 8] = linear_activation(%1, w, _) {activation=gelu_tanh}
  return %2
}
)");
}

TEST(FuseActivation, BehindAConvolution) {
  expect_pass(kFuseActivation, R"(program(x: f32[1, 2, 4, 4], w: f32[3, 2, 3, 3]) {
  %0: f32[1, 3, 2, 2] channels_last = conv2d(x, w, _) {stride=[1, 1] padding=[0, 0, 0, 0] dilation=[1, 1] groups=1}
  %1: f32[1, 3, 2, 2] channels_last = relu(%0)
  return %1
}
)",
              1, R"(program(x: f32[1, 2, 4, 4], w: f32[3, 2, 3, 3]) {
  %0: f32[1, 3, 2, 2] channels_last = conv2d_activation(x, w, _) {product=(stride=[1, 1] padding=[0, 0, 0, 0] dilation=[1, 1] groups=1) activation=relu}
  return %0
}
)");
}

TEST(FuseActivation, BehindAMatrixProduct) {
  expect_pass(kFuseActivation, R"(program(x: f32[4, 8], w: f32[8, 2], b: f32[2]) {
  %0: f32[4, 2] = matmul(x, w, b) {transpose_a=false transpose_b=false f32_result=false}
  %1: f32[4, 2] = relu(%0)
  return %1
}
)",
              1, R"(program(x: f32[4, 8], w: f32[8, 2], b: f32[2]) {
  %0: f32[4, 2] = matmul_activation(x, w, b) {product=(transpose_a=false transpose_b=false f32_result=false) activation=relu}
  return %0
}
)");
}

// ReLU's gradient reads its result, GELU's its argument.
TEST(FuseActivation, InTrainingOnlyRelu) {
  expect_pass(kFuseActivation, R"(program(x: f32[4, 8], w: f32[8, 8], g: f32[4, 8]) {
  %0: f32[4, 8] = linear(x, w, _)
  %1: f32[4, 8] = relu(%0)
  %2: f32[4, 8] = linear(%1, w, _)
  %3: f32[4, 8] = gelu(%2) {form=exact}
  %4: f32[4, 8] = mul(g, %3) #backward
  %5: f32[4, 8] = gelu_grad(%4, %2) {form=exact} #backward
  %6: f32[4, 8] = relu_grad(%5, %1) #backward
  return %6
}
)",
              1, R"(program(x: f32[4, 8], w: f32[8, 8], g: f32[4, 8]) {
  %0: f32[4, 8] = linear_activation(x, w, _) {activation=relu}
  %1: f32[4, 8] = linear(%0, w, _)
  %2: f32[4, 8] = gelu(%1) {form=exact}
  %3: f32[4, 8] = mul(g, %2) #backward
  %4: f32[4, 8] = gelu_grad(%3, %1) {form=exact} #backward
  %5: f32[4, 8] = relu_grad(%4, %0) #backward
  return %5
}
)");
}

TEST(FuseActivation, NotIfSomebodyElseReadsTheProduct) {
  expect_no_change(kFuseActivation, R"(program(x: f32[4, 8], w: f32[8, 8]) {
  %0: f32[4, 8] = linear(x, w, _)
  %1: f32[4, 8] = relu(%0)
  %2: f32[4, 8] = linear(%1, w, _)
  %3: f32[4, 8] = relu(%2)
  %4: f32[4, 8] = add(%2, %3)
  %5: f32[4, 8] = linear(%4, w, _)
  host look(%5)
  %6: f32[4, 8] = relu(%5)
  return %0, %6
}
)");
}

TEST(FuseActivation, NotOverACastOrAViewNorBeforeItIsPainted) {
  expect_no_change(kFuseActivation, R"(program(x: bf16[4, 8], w: bf16[8, 8]) {
  %0: bf16[4, 8] = linear(x, w, _)
  %1: f32[4, 8] = cast(%0) {dtype=f32}
  %2: f32[4, 8] = relu(%1)
  %3: bf16[4, 8] = linear(x, w, _)
  %4: bf16[32] = reshape(%3) {shape=[32]}
  %5: bf16[32] = relu(%4)
  %6: bf16[4, 8] = linear(x, w, _) in bf16
  %7: bf16[4, 8] = relu(%6)
  return %2, %5, %7
}
)");
}

// Compares all dtypes that a matrix product supports, with NaNs among the inputs.
void expect_same_bits(const std::function<Tensor(const Tensor&)>& layer, const char* fused,
                      const Tensor& x) {
  const NoGrad guard;
  for (const DType dtype : {DType::kF32, DType::kBf16, DType::kF16}) {
    CompiledStep step =
        compile([&](std::span<const Tensor> in) { return std::vector<Tensor>{layer(in[0])}; });
    const Tensor input = x.astype(dtype);
    const Tensor y = step({&input, 1})[0];
    const std::string text = to_text(step.latest()->program());
    EXPECT_NE(text.find(fused), std::string::npos) << text;
    const auto got = y.astype(DType::kF32).to_vector<float>();
    const auto want = layer(input).astype(DType::kF32).to_vector<float>();
    for (std::size_t i = 0; i < want.size(); ++i) {
      EXPECT_EQ(std::bit_cast<std::uint32_t>(got[i]), std::bit_cast<std::uint32_t>(want[i]))
          << name_of(dtype) << ", element " << i << ": " << got[i] << " instead of " << want[i];
    }
  }
}

// Rows of ordinary values, and rows with a NaN, with both infinities and with tiny values.
Tensor rows_with_extremes() {
  Generator generator(3);
  Tensor x = randn({20, 33}, generator);
  auto* numbers = x.mutable_data<float>();
  numbers[33] = std::numeric_limits<float>::quiet_NaN();
  numbers[66] = std::numeric_limits<float>::infinity();
  numbers[99] = -std::numeric_limits<float>::infinity();
  for (int i = 132; i < 165; ++i) numbers[i] *= 1e-8F;
  return x;
}

TEST(FuseActivation, LinearLayersKeepTheirBits) {
  Generator generator(4);
  const Tensor weight = randn({17, 33}, generator);
  const Tensor bias = randn({17}, generator);
  const Tensor x = rows_with_extremes();
  const auto layer = [&](const Tensor& in, const Tensor& b) {
    return linear(in, weight.astype(in.dtype()), b);
  };
  expect_same_bits([&](const Tensor& in) { return relu(layer(in, bias)); }, "activation=relu", x);
  expect_same_bits([&](const Tensor& in) { return relu(layer(in, Tensor())); }, "activation=relu",
                   x);
  expect_same_bits([&](const Tensor& in) { return gelu(layer(in, bias)); }, "activation=gelu", x);
  expect_same_bits([&](const Tensor& in) { return gelu(layer(in, bias), GeluForm::kTanh); },
                   "activation=gelu_tanh", x);
}

TEST(FuseActivation, ConvolutionsKeepTheirBits) {
  Generator generator(5);
  const Tensor weight = randn({5, 3, 3, 3}, generator);
  const Tensor bias = randn({5}, generator);
  const Tensor x = reshape(rows_with_extremes(), {1, 3, 10, 22});
  expect_same_bits(
      [&](const Tensor& in) { return relu(conv2d(in, weight.astype(in.dtype()), bias)); },
      "activation=relu", x);
}

PlainTraining two_layers(std::optional<DType> dtype = std::nullopt) {
  return {{{16, 8}, {16}, {4, 16}, {4}},
          {6, 8},
          [](std::span<const Tensor> p, const Tensor& x) {
            const Tensor y = linear(relu(linear(x, p[0], p[1])), p[2], p[3]);
            return mean((y * y).astype(DType::kF32));
          },
          dtype};
}

TEST(FuseActivation, TrainsWithTheBitsOfPlainCode) {
  expect_trains_alike(two_layers(), "activation=relu");
  expect_trains_alike(two_layers(DType::kBf16), "activation=relu");
  expect_trains_alike(two_layers(DType::kF16), "activation=relu");
}

TEST(FuseActivation, CanBeLeftOut) {
  expect_plain_without("fuse_activation", two_layers(), "activation=relu");
}

TEST(FuseActivation, TheProductTakesNoMemoryOfItsOwn) {
  Program program = parse_program(R"(program(x: f32[64, 64], w: f32[64, 64]) {
  %0: f32[64, 64] = linear(x, w, _)
  %1: f32[64, 64] = relu(%0)
  host look(%1)
  return
}
)");
  const std::size_t before = plan_memory(program).arena_bytes;
  fuse_activation(program);
  EXPECT_EQ(plan_memory(program).arena_bytes, before / 2);
}

}  // namespace
}  // namespace mezzo::graph
