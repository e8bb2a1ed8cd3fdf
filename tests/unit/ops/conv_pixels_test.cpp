// Convolutions with 1x1 kernels as products of pixels and weight.
#include <cstdint>
#include <vector>

#include <gtest/gtest.h>

#include "mezzo/core/cpu.h"
#include "mezzo/kernels/cpu/conv2d_pixels.h"
#include "mezzo/kernels/cpu/tiles.h"
#include "mezzo/ops/cast.h"
#include "mezzo/ops/conv2d.h"
#include "mezzo/ops/conv2d_attrs.h"
#include "mezzo/ops/grad_mode.h"
#include "mezzo/ops/shape_ops.h"
#include "tests/unit/ops/conv_call.h"
#include "tests/unit/ops/support.h"

namespace mezzo {
namespace {

using test::check_call;
using test::ConvCall;
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

// Whole strips of 32 or 48 pixels and parts of one, less than one, every number of rows that is
// left of a block of six; one block of channels and several; so much weight that it is read in
// pieces.
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
          kernels::conv::supports_pixels,
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
  call.supports = kernels::conv::supports_pixels_grad_input;
  call.run =
      unit == Unit::kTiles ? run_grad_input_by<Unit::kTiles> : run_grad_input_by<Unit::kDots>;
  call.b = random_tensor({c.x[1], c.out_channels, 1, 1}, 2, DType::kBf16);
  call.attrs = Conv2dGradAttrs{.size = {c.x[2], c.x[3]}};
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

// Rows are computed by themselves, whoever computes them.
TEST_P(ConvPixels, AnyNumberOfThreadsGivesTheSameBits) {
  const PixelCase c{{3, 64, 29, 31}, 128};
  const auto results = [&] {
    std::vector<float> all = forward_call(c).result_of(DType::kBf16).to_vector<float>();
    const std::vector<float> more = grad_input_call(c).result_of(DType::kBf16).to_vector<float>();
    all.insert(all.end(), more.begin(), more.end());
    return all;
  };
  const test::Threads one(1);
  const std::vector<float> expected = results();
  for (const int count : {2, 3, 5}) {
    const test::Threads several(count);
    EXPECT_TRUE(results() == expected) << count;
  }
}

// Rows that fill up the last strip are no numbers of the image: those may be infinite.
TEST_P(ConvPixels, WhatIsNotFiniteStaysInItsRow) {
  ConvCall call = forward_call({{1, 32, 1, 35}, 64});
  call.a.mutable_data<BFloat16>()[34 * 32] = BFloat16(INFINITY);
  const Tensor y = call.result_of(DType::kBf16);
  const auto rows = transpose(reshape(y, {64, 35}), 0, 1).to_vector<float>();
  for (std::size_t i = 0; i < rows.size(); ++i) {
    EXPECT_EQ(std::isfinite(rows[i]), i < 34UL * 64) << i;
  }
}

// The packed weight is renewed by what changes the parameter.
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
  const auto is_taken = [](const ConvCall& c, DType result = DType::kBf16) {
    Tensor out = empty(c.result, result, Format::kChannelsLast);
    const auto in = c.inputs();
    return static_cast<bool>(c.supports({in, {&out, 1}, c.attrs}));
  };
  const PixelCase fits{{2, 64, 9, 9}, 128};
  EXPECT_TRUE(is_taken(forward_call(fits)));
  EXPECT_FALSE(is_taken(forward_call(fits), DType::kF32));
  EXPECT_FALSE(is_taken(forward_call({{2, 48, 9, 9}, 128})));  // not whole tiles
  EXPECT_FALSE(is_taken(forward_call({{2, 64, 9, 9}, 144})));  //
  const bool has_tiles = kernels::has_tiles();                 // slower at long sums
  EXPECT_EQ(is_taken(forward_call({{2, 256, 9, 9}, 128})), !has_tiles);
  EXPECT_FALSE(is_taken(forward_call({{0, 64, 9, 9}, 128})));
  ConvCall strided = forward_call(fits);
  strided.attrs = Conv2dAttrs{.stride = 2};
  EXPECT_FALSE(is_taken(strided));
  ConvCall biased = forward_call(fits);
  biased.bias = random_tensor({128}, 3);
  EXPECT_FALSE(is_taken(biased));
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
