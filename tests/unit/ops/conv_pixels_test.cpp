// Tests convolutions with 1x1 kernels as matrix products of pixels and weight.
#include <cstdint>
#include <vector>

#include <gtest/gtest.h>

#include "mezzo/core/cpu.h"
#include "mezzo/kernels/cpu/conv/as_gemm/conv2d_pixels.h"
#include "mezzo/kernels/cpu/conv/choice/choose.h"
#include "mezzo/kernels/cpu/gemm/tiles.h"
#include "mezzo/ops/cast.h"
#include "mezzo/ops/conv2d.h"
#include "mezzo/ops/conv2d_attrs.h"
#include "mezzo/ops/dispatcher/grad_mode.h"
#include "mezzo/ops/shape_ops.h"
#include "tests/unit/ops/conv_call.h"
#include "tests/unit/ops/support.h"

namespace mezzo {
namespace {

using test::check_call;
using test::ConvCall;
using test::is_taken;
using test::random_tensor;
using Unit = kernels::pixels::Unit;

template <Unit kUnit>
void run_by(const KernelArgs& args) {
  kernels::conv::run_pixels(args, kUnit);
}
template <Unit kUnit>
void run_grad_input_by(const KernelArgs& args) {
  kernels::conv::run_pixels_grad_input(args, kUnit);
}

struct PixelCase {
  Shape x;
  std::int64_t out_channels;
};

// Whole strips of 32 or 48 pixels, partial strips, and less than one. Every remainder of rows
// modulo a block of six. One block of channels and several. So much weight that it is read in
// parts.
std::vector<PixelCase> pixel_cases() {
  return {
      {{1, 32, 1, 1}, 32},   {{2, 32, 3, 5}, 64},    {{1, 64, 8, 4}, 64},   {{3, 64, 11, 3}, 160},
      {{2, 96, 7, 9}, 192},  {{5, 96, 7, 7}, 32},    {{1, 64, 1, 65}, 256}, {{2, 320, 4, 4}, 1152},
      {{1, 1024, 2, 3}, 64}, {{3, 160, 33, 2}, 320}, {{1, 32, 2, 1}, 96},   {{1, 64, 1, 8}, 64},
      {{1, 32, 9, 1}, 96},   {{1, 64, 2, 2}, 96},    {{1, 32, 1, 5}, 32},
  };
}

ConvCall forward_call(const PixelCase& c, Unit unit) {
  return {"conv2d",
          kernels::conv::takes<kernels::conv::kPixels, kernels::conv::forward_problem>,
          unit == Unit::kTiles ? run_by<Unit::kTiles> : run_by<Unit::kDots>,
          to_format(random_tensor(c.x, 1, DType::kBf16), Format::kChannelsLast),
          random_tensor({c.out_channels, c.x[1], 1, 1}, 2, DType::kBf16),
          Tensor(),
          {c.x[0], c.out_channels, c.x[2], c.x[3]},
          Conv2dAttrs{},
          c.x[1]};
}

// The gradient has the channels of the case's x, the image as many as its result.
ConvCall grad_input_call(const PixelCase& c, Unit unit) {
  ConvCall call = forward_call(c, unit);
  call.op = "conv2d_grad_input";
  call.supports = kernels::conv::takes<kernels::conv::kPixels, kernels::conv::grad_input_problem>;
  call.run =
      unit == Unit::kTiles ? run_grad_input_by<Unit::kTiles> : run_grad_input_by<Unit::kDots>;
  call.b = random_tensor({c.x[1], c.out_channels, 1, 1}, 2, DType::kBf16);
  call.attrs = Conv2dGradAttrs{.size = {c.x[2], c.x[3]}};
  return call;
}

constexpr Size2d kStride{2, 3};

// The same convolution with a stride: its image has more pixels than are multiplied.
ConvCall strided(ConvCall call) {
  call.attrs = Conv2dAttrs{.stride = kStride};
  const Shape& x = call.a.shape();
  call.result = {x[0], call.result[1], (x[2] - 1) / kStride.h + 1, (x[3] - 1) / kStride.w + 1};
  return call;
}

// The image has some rows and columns after the last one that is multiplied.
ConvCall strided_grad_input(ConvCall call) {
  const Shape& grad = call.a.shape();
  const Size2d size{grad[2] * kStride.h, (grad[3] - 1) * kStride.w + 1};
  call.attrs = Conv2dGradAttrs{.conv = {.stride = kStride}, .size = size};
  call.result = {grad[0], call.result[1], size.h, size.w};
  return call;
}

class ConvPixels : public testing::TestWithParam<Unit> {
 protected:
  void SetUp() override {
    if (!kernels::has_tiles() && GetParam() == Unit::kTiles) GTEST_SKIP() << "this CPU has no AMX";
    if (!has_fast_bf16()) GTEST_SKIP() << "this CPU multiplies bf16 no faster than f32";
  }

  static ConvCall forward_call(const PixelCase& c) { return mezzo::forward_call(c, GetParam()); }
  static ConvCall grad_input_call(const PixelCase& c) {
    return mezzo::grad_input_call(c, GetParam());
  }
};

TEST_P(ConvPixels, ResultsAndGradientsArePlainSums) {
  for (const PixelCase& c : pixel_cases()) {
    check_call(forward_call(c), DType::kBf16);
    check_call(grad_input_call(c), DType::kBf16);
  }
}

// One bias per channel, added before the sums are rounded.
TEST_P(ConvPixels, TakeABias) {
  for (const PixelCase& c : pixel_cases()) {
    check_call(forward_call(c).with_bias(DType::kF32), DType::kBf16);
    check_call(forward_call(c).with_bias(DType::kBf16), DType::kBf16);
  }
}

// Every second row and every third column, in whole strips and less than one.
TEST_P(ConvPixels, TakePixelsUnderAStride) {
  const PixelCase cases[] = {
      {{2, 64, 15, 17}, 96}, {{1, 32, 1, 1}, 32}, {{3, 96, 8, 9}, 160}, {{1, 64, 23, 35}, 64}};
  for (const PixelCase& c : cases) {
    check_call(strided(forward_call(c)), DType::kBf16);
    check_call(strided_grad_input(grad_input_call(c)), DType::kBf16);
  }
}

// Each row and column is computed the same way by any thread: for many pixels, and for so few that
// the channels of the result are divided among threads.
TEST_P(ConvPixels, AnyNumberOfThreadsGivesTheSameBits) {
  const PixelCase many{{3, 64, 29, 31}, 128};
  const PixelCase few{{1, 64, 7, 7}, 1184};
  test::expect_same_by_threads(
      {forward_call(many), grad_input_call(many), forward_call(few), grad_input_call(few)});
}

// Even with one thread, columns of few pixels are computed in parts.
TEST_P(ConvPixels, FewPixelsOfManyChannels) {
  for (const int threads : {1, 3}) {
    const test::Threads guard(threads);
    check_call(forward_call({{1, 64, 7, 7}, 1184}), DType::kBf16);
    check_call(forward_call({{1, 64, 3, 5}, 2048}), DType::kBf16);
  }
}

// Rows that pad the last strip are not part of the image: they may be infinite.
TEST_P(ConvPixels, WhatIsNotFiniteStaysInItsRow) {
  ConvCall call = forward_call({{1, 32, 1, 35}, 64});
  call.a.mutable_data<BFloat16>()[34 * 32] = BFloat16(INFINITY);
  const Tensor y = call.result_of(DType::kBf16);
  const auto rows = transpose(reshape(y, {64, 35}), 0, 1).to_vector<float>();
  for (std::size_t i = 0; i < rows.size(); ++i) {
    EXPECT_EQ(std::isfinite(rows[i]), i < 34UL * 64) << i;
  }
}

// Changing the parameter renews the packed weight.
TEST_P(ConvPixels, FollowsChangesOfTheWeight) {
  const NoGrad no_grad;
  const Tensor x = random_tensor({2, 64, 9, 9}, 1, DType::kBf16);
  const Tensor weight = random_tensor({128, 64, 1, 1}, 2).set_requires_grad(true);
  const auto convolved = [&](const Tensor& w) {
    test::SeeKernel seen("conv2d");
    const std::vector<float> y = conv2d(x, cast(w, DType::kBf16)).to_vector<float>();
    EXPECT_EQ(seen.kernel, "cpu_pixels");
    return y;
  };
  for (int step = 0; step < 3; ++step) {
    EXPECT_TRUE(convolved(weight) == convolved(test::plain_copy(weight))) << step;
    weight.mutable_data<float>()[step] += 1;
  }
}

TEST_P(ConvPixels, LeavesOtherCallsToOthers) {
  const PixelCase fits{{2, 64, 9, 9}, 128};
  EXPECT_TRUE(is_taken(forward_call(fits)));
  EXPECT_TRUE(is_taken(forward_call({{2, 256, 9, 9}, 128})));
  EXPECT_FALSE(is_taken(forward_call(fits), DType::kF32));
  EXPECT_FALSE(is_taken(forward_call({{2, 48, 9, 9}, 128})));  // not whole tiles
  EXPECT_FALSE(is_taken(forward_call({{2, 64, 9, 9}, 144})));  //
  EXPECT_FALSE(is_taken(forward_call({{0, 64, 9, 9}, 128})));
  EXPECT_TRUE(is_taken(strided(forward_call(fits))));
  EXPECT_TRUE(is_taken(strided(forward_call({{2, 128, 9, 9}, 64}))));
  ConvCall padded = grad_input_call(fits);
  padded.attrs = Conv2dGradAttrs{.conv = {.padding = {1, 1, 1, 1}}, .size = {7, 7}};
  EXPECT_FALSE(is_taken(padded));
}

INSTANTIATE_TEST_SUITE_P(ByEveryUnit, ConvPixels, testing::Values(Unit::kTiles, Unit::kDots),
                         [](const auto& unit) {
                           return unit.param == Unit::kTiles ? "Tiles" : "Dots";
                         });

}  // namespace
}  // namespace mezzo
