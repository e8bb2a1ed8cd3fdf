// Tests the panel kernel of conv2d_grad_weight against plain sums, with every kind of product.
#include "mezzo/kernels/cpu/conv/grad_weight/grad_weight.h"

#include <vector>

#include <gtest/gtest.h>

#include "mezzo/core/cpu.h"
#include "mezzo/core/random.h"
#include "mezzo/kernels/cpu/conv/choice/choose.h"
#include "mezzo/kernels/cpu/gemm/tiles.h"
#include "mezzo/ops/cast.h"
#include "mezzo/ops/dispatcher/call.h"
#include "mezzo/ops/dispatcher/dispatch.h"
#include "tests/unit/ops/plain_grad_weight.h"
#include "tests/unit/threads.h"

namespace mezzo {

namespace ops {
extern const OpDef conv2d_grad_weight;
}

namespace {

using kernels::grad_weight::Products;

struct GradWeightCase {
  Shape x;  // [n, c, h, w]
  std::int64_t out_channels;
  Size2d kernel;
  Conv2dAttrs attrs{};
};

// Odd sizes everywhere; some have several chunks, and the last one is partial.
std::vector<GradWeightCase> cases() {
  return {
      {{1, 16, 5, 5}, 16, {1, 1}},
      {{2, 17, 6, 6}, 20, {3, 3}, {.padding = {1, 1, 1, 1}}},
      {{3, 8, 7, 9}, 9, {3, 3}, {.stride = 2, .padding = {1, 1, 1, 1}}},
      {{5, 24, 9, 8}, 40, {5, 3}, {.stride = {3, 1}, .padding = {2, 0, 1, 3}}},
      {{7, 33, 7, 7}, 16, {3, 3}, {.padding = {2, 2, 2, 2}, .dilation = 2}},
      {{2, 16, 12, 11}, 16, {2, 3}, {.stride = 2, .padding = {0, 1, 2, 0}, .dilation = {1, 3}}},
      {{4, 48, 6, 6}, 17, {1, 1}, {.stride = 2}},
      {{2, 16, 3, 3}, 16, {5, 5}, {.padding = {4, 4, 4, 4}}},
      {{6, 32, 17, 31}, 24, {3, 3}, {.padding = {1, 1, 1, 1}}},
      {{3, 16, 40, 40}, 16, {3, 3}, {.stride = 2, .padding = {1, 1, 1, 1}}},
      {{3, 32, 40, 38}, 48, {3, 3}, {.stride = 2, .padding = {1, 1, 1, 1}}},
      {{9, 80, 5, 5}, 72, {1, 1}},
      {{4, 6, 14, 14}, 16, {5, 5}},
      {{3, 3, 9, 11}, 33, {3, 3}, {.padding = {1, 1, 1, 1}}},
      {{2, 19, 8, 7}, 1, {3, 3}, {.stride = 2}},
      {{3, 32, 20, 20}, 18, {1, 1}},
      {{11, 24, 13, 11}, 40, {1, 1}},
      {{2, 17, 4, 150}, 20, {1, 3}, {.padding = {0, 0, 1, 1}}},
      // Few channels and many columns, which are joined.
      {{3, 3, 23, 21}, 24, {7, 7}, {.stride = 2, .padding = {3, 3, 3, 3}}},
      {{2, 1, 9, 14}, 33, {3, 5}, {.stride = {1, 3}, .padding = {1, 1, 0, 6}}},
      {{5, 6, 8, 9}, 17, {5, 5}, {.padding = {2, 2, 4, 1}, .dilation = {1, 2}}},
      {{1, 2, 6, 40}, 70, {1, 9}, {.stride = {2, 1}}},
      {{3, 4, 12, 13}, 13, {4, 5}, {.stride = {1, 2}, .padding = {2, 1, 3, 2}}},
  };
}

class GradWeight : public testing::TestWithParam<Products> {
 protected:
  void SetUp() override {
    if (GetParam() == Products::kTiles && !kernels::has_tiles()) {
      GTEST_SKIP() << "this CPU has no AMX";
    }
    if (GetParam() == Products::kPairs && !has_bf16_dot()) {
      GTEST_SKIP() << "this CPU has no bf16 dot product";
    }
  }
};

void check(const GradWeightCase& c, DType dtype, Products products, Format format) {
  const Size2d out = c.attrs.window(c.kernel).output_size({c.x[2], c.x[3]}, "conv2d");
  const Tensor x = cast(randn(c.x), dtype);
  const Tensor grad = cast(randn({c.x[0], c.out_channels, out.h, out.w}), dtype);
  const Attrs attrs(Conv2dGradAttrs{c.attrs, c.kernel, true});
  Tensor result = empty({c.out_channels, c.x[1], c.kernel.h, c.kernel.w}, DType::kF32, format);
  const std::array<const Tensor*, 2> inputs{&grad, &x};
  kernels::run_grad_weight({inputs, {&result, 1}, attrs}, products);
  const std::vector<float> values = result.to_vector<float>();
  const Tensor wide_x = cast(x, DType::kF64);
  const Tensor wide_grad = cast(grad, DType::kF64);
  // Every seventh element, which covers every tap, and the last one.
  for (std::int64_t i = 0; i < result.numel(); i = i + 7 < result.numel() ? i + 7 : i + 1) {
    const Shape at = test::place_of_weight(result.shape(), i);
    const test::PlainSum sum = test::plain_grad_weight(c.attrs, wide_grad, wide_x, at);
    // Every addition is rounded once to f32; products of 16-bit values are exact.
    const double most = static_cast<double>(sum.terms + 1) * 0x1p-24 * sum.magnitude;
    ASSERT_NEAR(values[static_cast<std::size_t>(i)], sum.value, most)
        << concat("x ", c.x, ", weight ", result.shape(), ", at ", at);
  }
}

void check(const GradWeightCase& c, DType dtype, Products products) {
  check(c, dtype, products, Format::kContiguous);
  check(c, dtype, products, Format::kChannelsLast);
}

TEST_P(GradWeight, IsThePlainSumWhateverTheNumberOfThreads) {
  const DType dtype = GetParam() == Products::kF32 ? DType::kF16 : DType::kBf16;
  for (const int threads : {1, 2, 5}) {
    const test::Threads guard(threads);
    manual_seed(7);
    for (const GradWeightCase& c : cases()) check(c, dtype, GetParam());
  }
}

TEST(GradWeightOfBf16, IsWidenedWhereNoInstructionTakesIt) {
  manual_seed(7);
  for (const GradWeightCase& c : cases()) check(c, DType::kBf16, Products::kF32);
}

TEST(GradWeightOfF32, IsThePlainSum) {
  manual_seed(7);
  for (const GradWeightCase& c : cases()) check(c, DType::kF32, Products::kF32);
}

TEST(GradWeightOfF32, IsLeftToOtherKernelsWhereThoseAreFaster) {
  const bool can = has_vectors();
  const bool others_are_fast = cpu_features().avx512;
  const auto takes = [](std::int64_t channels, Size2d kernel, Size2d stride) {
    const Tensor grad = randn({2, channels, 4, 4});
    const Tensor x = randn({2, channels, 8, 8});
    const Attrs attrs(Conv2dGradAttrs{{.stride = stride}, kernel, false});
    Tensor weight = empty({channels, channels, kernel.h, kernel.w});
    const std::array<const Tensor*, 2> inputs{&grad, &x};
    return static_cast<bool>(
        kernels::conv::takes<kernels::conv::kGradWeight, kernels::conv::grad_weight_problem>(
            {inputs, {&weight, 1}, attrs}));
  };
  EXPECT_EQ(takes(64, 3, 2), can);
  EXPECT_EQ(takes(67, {1, 3}, {1, 2}), can);
  EXPECT_FALSE(takes(63, 3, 2));
  EXPECT_FALSE(takes(63, 1, 1));
  EXPECT_EQ(takes(64, 1, 2), can && !others_are_fast);
  EXPECT_EQ(takes(64, 3, 1), can && !others_are_fast);
}

// The number of pixels of dy that tiles multiply for 16 images of 7 x 7, in pairs of images and
// rounded up to 16.
std::int64_t pixels_of_tiles(Size2d kernel, Products products) {
  const Tensor grad = zeros({16, 32, 7, 7}, DType::kBf16);
  const Tensor x = zeros({16, 32, 7, 7}, DType::kBf16);
  const std::int64_t padding = (kernel.h - 1) / 2;
  const Conv2dAttrs conv{.padding = {padding, padding, padding, padding}};
  const Attrs attrs(Conv2dGradAttrs{conv, kernel, true});
  const std::array<const Tensor*, 2> inputs{&grad, &x};
  const kernels::grad_weight::Plan plan(
      kernels::grad_weight::problem_of({inputs, {}, attrs}, products), 1);
  std::int64_t pixels = 0;
  for (const auto& chunk : plan.chunks) pixels += chunk.slots() * plan.grad_pixels(chunk);
  return pixels;
}

TEST(GradWeightPlan, ImagesAreOneWhereEachPixelIsMetOnce) {
  EXPECT_EQ(pixels_of_tiles(1, Products::kTiles), 400);
  EXPECT_EQ(pixels_of_tiles(1, Products::kPairs), 8 * 49);
  EXPECT_EQ(pixels_of_tiles(3, Products::kTiles), 8 * 64);
}

// The sums are then computed in the result's memory and need none of their own.
TEST(GradWeightPlan, SumsOfWholePanelsFitTheWeight) {
  const auto fit = [](std::int64_t in, std::int64_t out, int threads) {
    const kernels::grad_weight::Problem problem{.images = 16,
                                                .in_channels = in,
                                                .out_channels = out,
                                                .x = {14, 14},
                                                .y = {14, 14},
                                                .kernel = 3,
                                                .attrs = {.padding = {1, 1, 1, 1}},
                                                .products = Products::kPairs};
    return kernels::grad_weight::Plan(problem, threads).sums_fit_weight();
  };
  EXPECT_TRUE(fit(512, 512, 2));
  EXPECT_TRUE(fit(16, 32, 1));
  EXPECT_FALSE(fit(16, 32, 2)) << "each thread has sums of its own";
  EXPECT_FALSE(fit(512, 500, 2));
  EXPECT_FALSE(fit(500, 512, 2));
}

TEST_P(GradWeight, IsRoundedOnceToTheResultsDtype) {
  const DType dtype = GetParam() == Products::kF32 ? DType::kF16 : DType::kBf16;
  const Tensor x = cast(randn({2, 16, 4, 4}), dtype);
  const Tensor grad = cast(randn({2, 16, 4, 4}), dtype);
  const Attrs attrs(Conv2dGradAttrs{{}, {1, 1}, false});
  const std::array<const Tensor*, 2> inputs{&grad, &x};
  Tensor wide = empty({16, 16, 1, 1});
  kernels::run_grad_weight({inputs, {&wide, 1}, attrs}, GetParam());
  Tensor narrow = empty({16, 16, 1, 1}, dtype);
  kernels::run_grad_weight({inputs, {&narrow, 1}, attrs}, GetParam());
  const Tensor expected = cast(cast(wide, dtype), DType::kF32);
  const Tensor actual = cast(narrow, DType::kF32);
  for (std::int64_t i = 0; i < wide.numel(); ++i) {
    ASSERT_EQ(actual.data<float>()[i], expected.data<float>()[i]);
  }
}

// The plain loop adds up in double, which keeps the 1 between two large values.
TEST(GradWeightOfAnOperation, FallsBackWhenKernelsAreDisabled) {
  const Tensor x = zeros({1, 8, 1, 3}, DType::kF16, Format::kChannelsLast);
  const Tensor grad = zeros({1, 8, 1, 3}, DType::kF16, Format::kChannelsLast);
  const float factors[2][3] = {{65504, 1, 65504}, {65504, 1, -65504}};
  for (int pixel = 0; pixel < 3; ++pixel) {
    x.mutable_data<Float16>()[8 * pixel] = Float16(factors[0][pixel]);
    grad.mutable_data<Float16>()[8 * pixel] = Float16(factors[1][pixel]);
  }
  const Conv2dGradAttrs attrs{{}, {1, 1}, true};
  if (has_vectors()) {
    EXPECT_EQ(call_one(ops::conv2d_grad_weight, {&grad, &x}, attrs).data<float>()[0], 0);
  }
  disable_kernels({"cpu_grad_weight", "cpu_onednn", "cpu_onednn_f32"});
  const Tensor plain = call_one(ops::conv2d_grad_weight, {&grad, &x}, attrs);
  disable_kernels({});
  EXPECT_EQ(plain.data<float>()[0], 1);
}

std::string name_of_products(const testing::TestParamInfo<Products>& parameter) {
  switch (parameter.param) {
    case Products::kF32: return "F32";
    case Products::kPairs: return "Pairs";
    case Products::kTiles: return "Tiles";
  }
  return "Unknown";
}

INSTANTIATE_TEST_SUITE_P(Products, GradWeight,
                         testing::Values(Products::kF32, Products::kPairs, Products::kTiles),
                         name_of_products);

}  // namespace
}  // namespace mezzo
