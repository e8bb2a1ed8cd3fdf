#include <bit>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "mezzo/graph/passes/passes.h"
#include "mezzo/graph/replay.h"
#include "mezzo/ops/arithmetic.h"
#include "mezzo/ops/conv2d.h"
#include "mezzo/ops/pool.h"
#include "mezzo/ops/reduce.h"
#include "mezzo/ops/relu.h"
#include "mezzo/ops/shape_ops.h"
#include "tests/unit/graph/pass_texts.h"
#include "tests/unit/graph/plain_training.h"

namespace mezzo::graph {
namespace {

TEST(PoolBeforeRelu, WithoutGradients) {
  expect_pass(kPoolBeforeRelu, R"(program(x: f32[2, 3, 4, 4] channels_last) {
  %0: f32[2, 3, 4, 4] channels_last = relu(x) over(x) @relu1
  %1: f32[2, 3, 2, 2] channels_last, %2: u8[2, 3, 2, 2] channels_last = max_pool2d(%0) {kernel=[2, 2] stride=[2, 2] padding=[0, 0, 0, 0] count_include_pad=true image=[0, 0]} @pool1
  return %1
}
)",
              1, R"(program(x: f32[2, 3, 4, 4] channels_last) {
  %0: f32[2, 3, 2, 2] channels_last, %1: u8[2, 3, 2, 2] channels_last = max_pool2d(x) {kernel=[2, 2] stride=[2, 2] padding=[0, 0, 0, 0] count_include_pad=true image=[0, 0]} @pool1
  %2: f32[2, 3, 2, 2] channels_last = relu(%0) over(%0) @relu1
  return %2
}
)");
}

TEST(PoolBeforeRelu, WithGradients) {
  expect_pass(kPoolBeforeRelu,
              R"(program(x: f32[2, 3, 4, 4] channels_last, g: f32[2, 3, 2, 2] channels_last) {
  %0: f32[2, 3, 4, 4] channels_last = relu(x)
  %1: f32[2, 3, 2, 2] channels_last, %2: u8[2, 3, 2, 2] channels_last = max_pool2d(%0) {kernel=[2, 2] stride=[2, 2] padding=[0, 0, 0, 0] count_include_pad=true image=[0, 0]}
  %3: f32[2, 3, 2, 2] channels_last = mul(g, %1)
  %4: f32[2, 3, 4, 4] channels_last = max_pool2d_grad(%3, %2) {kernel=[2, 2] stride=[2, 2] padding=[0, 0, 0, 0] count_include_pad=true image=[4, 4]} #backward
  %5: f32[2, 3, 4, 4] channels_last = relu_grad(%4, %0) over(%4) #backward
  return %5
}
)",
              1,
              R"(program(x: f32[2, 3, 4, 4] channels_last, g: f32[2, 3, 2, 2] channels_last) {
  %0: f32[2, 3, 2, 2] channels_last, %1: u8[2, 3, 2, 2] channels_last = max_pool2d(x) {kernel=[2, 2] stride=[2, 2] padding=[0, 0, 0, 0] count_include_pad=true image=[0, 0]}
  %2: f32[2, 3, 2, 2] channels_last = relu(%0) over(%0)
  %3: f32[2, 3, 2, 2] channels_last = mul(g, %2)
  %4: f32[2, 3, 2, 2] channels_last = relu_grad(%3, %2) over(%3) #backward
  %5: f32[2, 3, 4, 4] channels_last = max_pool2d_grad(%4, %1) {kernel=[2, 2] stride=[2, 2] padding=[0, 0, 0, 0] count_include_pad=true image=[4, 4]} #backward
  return %5
}
)");
}

// Both poolings move before the ReLU.
TEST(PoolBeforeRelu, OfTwoPoolings) {
  Program program = parse_program(R"(program(x: f32[1, 2, 8, 8] channels_last) {
  %0: f32[1, 2, 8, 8] channels_last = relu(x)
  %1: f32[1, 2, 4, 4] channels_last, %2: u8[1, 2, 4, 4] channels_last = max_pool2d(%0) {kernel=[2, 2] stride=[2, 2] padding=[0, 0, 0, 0] count_include_pad=true image=[0, 0]}
  %3: f32[1, 2, 2, 2] channels_last, %4: u8[1, 2, 2, 2] channels_last = max_pool2d(%1) {kernel=[2, 2] stride=[2, 2] padding=[0, 0, 0, 0] count_include_pad=true image=[0, 0]}
  return %3
}
)");
  EXPECT_EQ(pool_before_relu(program), 2U);
  verify(program);
  EXPECT_EQ(std::string(program.nodes.back().op->name), "relu");
}

// A ReLU and a pooling of images in that `layout`, and what follows them.
std::string pooled_images(const std::string& layout, const std::string& more,
                          const std::string& results) {
  const std::string pixels = ": f32[2, 3, 4, 4]" + layout;
  return concat("program(x", pixels, R"(, g: f32[2, 3, 2, 2] channels_last) {
  %0)",
                pixels, R"( = relu(x)
  %1: f32[2, 3, 2, 2] channels_last, %2: u8[2, 3, 2, 2] channels_last = max_pool2d(%0) {kernel=[2, 2] stride=[2, 2] padding=[0, 0, 0, 0] count_include_pad=true image=[0, 0]}
)",
                more, "  return ", results, "\n}\n");
}

const std::string kLast = " channels_last";
const std::string kPoolGrad =
    R"(  %3: f32[2, 3, 4, 4] channels_last = max_pool2d_grad(g, %2) {kernel=[2, 2] stride=[2, 2] padding=[0, 0, 0, 0] count_include_pad=true image=[4, 4]} #backward
)";
const std::string kReluGrad = R"(  %4: f32[2, 3, 4, 4] channels_last = relu_grad(%3, %0) #backward
)";

void expect_left(const std::string& more, const std::string& results,
                 const std::string& layout = kLast) {
  expect_no_change(kPoolBeforeRelu, pooled_images(layout, more, results));
}

// Other readers of the ReLU, its gradient or the positions need them where they are.
TEST(PoolBeforeRelu, LeavesWhatOthersRead) {
  expect_left("", "%1, %0");
  expect_left("", "%1, %2");
  expect_left("  %3: f32[2, 3, 4, 4] channels_last = mul(%0, %0)\n", "%1, %3");
  expect_left(kPoolGrad + kReluGrad, "%1, %3, %4");
  expect_left(kPoolGrad + kReluGrad, "%1, %2, %4");
  expect_left(kPoolGrad, "%1, %3");  // the positions are read by an unrelated gradient
}

// The pooled image may have changed when the ReLU's gradient reads its signs.
TEST(PoolBeforeRelu, LeavesWhatHostWorkMayChange) {
  expect_left("  host scale(%1)\n" + kPoolGrad + kReluGrad, "%4");
}

TEST(PoolBeforeRelu, LeavesGradientsOfSomethingElse) {
  // The ReLU's result is used as the gradient here, not as the value whose signs count.
  expect_left(kPoolGrad + "  %4: f32[2, 3, 4, 4] channels_last = relu_grad(%0, %3) #backward\n",
              "%1, %4");
  // The gradient has passed through another call.
  expect_left(kPoolGrad + R"(  %4: f32[2, 3, 4, 4] channels_last = mul(%3, %3) #backward
  %5: f32[2, 3, 4, 4] channels_last = relu_grad(%4, %0) #backward
)",
              "%1, %5");
}

// The pooling's gradient is channels-last, that of the ReLU has its argument's layout.
TEST(PoolBeforeRelu, LeavesImagesThatLieOtherwise) {
  expect_left(kPoolGrad + "  %4: f32[2, 3, 4, 4] = relu_grad(%3, %0) #backward\n", "%1, %4", "");
}

TEST(PoolBeforeRelu, LeavesPoolingsThatMakeNothingSmaller) {
  expect_no_change(kPoolBeforeRelu, R"(program(x: f32[2, 3, 4, 4] channels_last) {
  %0: f32[2, 3, 4, 4] channels_last = relu(x)
  %1: f32[2, 3, 4, 4] channels_last, %2: u8[2, 3, 4, 4] channels_last = max_pool2d(%0) {kernel=[3, 3] stride=[1, 1] padding=[1, 1, 1, 1] count_include_pad=true image=[0, 0]}
  return %1
}
)");
}

PlainTraining pooled_layers(const Pool2dOptions& options,
                            std::optional<DType> dtype = std::nullopt) {
  return {{{6, 3, 3, 3}, {6}, {4, 6, 3, 3}, {4}},
          {2, 3, 15, 14},
          [options](std::span<const Tensor> p, const Tensor& x) {
            const Tensor first = max_pool2d(relu(conv2d(x, p[0], p[1])), options);
            const Tensor y = max_pool2d(relu(conv2d(first, p[2], p[3])), {.kernel = 2});
            return mean((y * y).astype(DType::kF32));
          },
          dtype};
}

const Pool2dOptions kOverlapping{.kernel = 3, .stride = 2, .padding = 1};

TEST(PoolBeforeRelu, TrainsWithTheBitsOfPlainCode) {
  for (const Pool2dOptions& options : {Pool2dOptions{.kernel = 2}, kOverlapping}) {
    expect_trains_alike(pooled_layers(options), "= conv2d(");
    expect_trains_alike(pooled_layers(options, DType::kBf16), "= conv2d(");
    expect_trains_alike(pooled_layers(options, DType::kF16), "= conv2d(");
  }
}

TEST(PoolBeforeRelu, CanBeLeftOut) {
  expect_plain_without("pool_before_relu", pooled_layers(kOverlapping), "= conv2d(");
}

// Small integers, many of which are equal, and a NaN.
Tensor equal_numbers(const Shape& shape, std::uint64_t seed) {
  Generator generator(seed);
  const Tensor x = randn(shape, generator);
  auto* numbers = x.mutable_data<float>();
  for (std::int64_t i = 0; i < x.numel(); ++i) numbers[i] = std::round(numbers[i]);
  numbers[5] = std::numeric_limits<float>::quiet_NaN();
  numbers[21] = std::numeric_limits<float>::infinity();
  numbers[47] = -std::numeric_limits<float>::infinity();
  return x;
}

std::vector<std::uint32_t> bits_in(const Tensor& tensor) {
  std::vector<std::uint32_t> bits;
  for (const float x : tensor.astype(DType::kF32).to_vector<float>()) {
    bits.push_back(std::bit_cast<std::uint32_t>(x));
  }
  return bits;
}

TEST(PoolBeforeRelu, EqualNumbersAndNoNumbersKeepTheirBits) {
  for (const DType dtype : {DType::kF32, DType::kBf16, DType::kF16}) {
    const Tensor x = to_format(equal_numbers({2, 3, 8, 9}, 1).astype(dtype), Format::kChannelsLast)
                         .set_requires_grad(true);
    const Tensor g = equal_numbers({2, 3, 4, 5}, 2).astype(dtype);
    const auto step = [&](std::span<const Tensor> in) {
      const Tensor y = max_pool2d(relu(x), kOverlapping);
      x.clear_grad();
      sum(y * in[0]).backward();
      return std::vector<Tensor>{y};
    };
    const std::vector<std::uint32_t> result = bits_in(step({&g, 1})[0]);
    const std::vector<std::uint32_t> gradient = bits_in(x.grad());
    x.clear_grad();
    CompiledStep captured = compile(step);
    EXPECT_EQ(bits_in(captured({&g, 1})[0]), result) << name_of(dtype);
    EXPECT_EQ(bits_in(x.grad()), gradient) << name_of(dtype);
    const std::string text = to_text(captured.latest()->program());
    EXPECT_LT(text.find("= max_pool2d("), text.find("= relu(")) << text;
  }
}

}  // namespace
}  // namespace mezzo::graph
