// Tests convolutions of few channels on the tile unit.
#include <cmath>
#include <cstdint>
#include <vector>

#include <gtest/gtest.h>

#include "mezzo/kernels/cpu/conv/choice/choose.h"
#include "mezzo/kernels/cpu/conv/direct/conv2d_direct_narrow.h"
#include "mezzo/kernels/cpu/gemm/tiles.h"
#include "mezzo/ops/cast.h"
#include "mezzo/ops/conv2d_attrs.h"
#include "tests/unit/ops/conv_call.h"
#include "tests/unit/ops/support.h"

namespace mezzo {
namespace {

using kernels::conv::run_direct_narrow;
using kernels::conv::run_direct_narrow_grad_input;
using test::check_call;
using test::ConvCall;
using test::is_taken;
using test::random_tensor;

struct JoinedCase {
  Shape x;
  std::int64_t out_channels;
  Size2d kernel;
  Sides padding{};
};

Size2d joined_size(const JoinedCase& c) {
  return Conv2dAttrs{.padding = c.padding}.window(c.kernel).output_size({c.x[2], c.x[3]}, "conv2d");
}

Tensor joined_image(const Shape& shape, std::uint64_t seed) {
  return to_format(random_tensor(shape, seed, DType::kBf16), Format::kChannelsLast);
}

ConvCall joined_call(const JoinedCase& c) {
  const Size2d size = joined_size(c);
  return {"conv2d",
          kernels::conv::takes<kernels::conv::kDirectNarrow, kernels::conv::forward_problem>,
          run_direct_narrow,
          joined_image(c.x, 1),
          random_tensor({c.out_channels, c.x[1], c.kernel.h, c.kernel.w}, 2, DType::kBf16),
          Tensor(),
          {c.x[0], c.out_channels, size.h, size.w},
          Conv2dAttrs{.padding = c.padding},
          c.x[1] * c.kernel.h * c.kernel.w};
}

// The gradient has the case's images as its result; their channels are those of the convolution's
// result.
ConvCall joined_gradient(const JoinedCase& c) {
  const Sides& p = c.padding;
  const Sides turned{c.kernel.h - 1 - p.top, c.kernel.h - 1 - p.bottom, c.kernel.w - 1 - p.left,
                     c.kernel.w - 1 - p.right};
  const Size2d size = joined_size(c);
  return {"conv2d_grad_input",
          kernels::conv::takes<kernels::conv::kDirectNarrow, kernels::conv::grad_input_problem>,
          run_direct_narrow_grad_input,
          joined_image(c.x, 1),
          random_tensor({c.x[1], c.out_channels, c.kernel.h, c.kernel.w}, 2, DType::kBf16),
          Tensor(),
          {c.x[0], c.out_channels, size.h, size.w},
          Conv2dGradAttrs{.conv = {.padding = turned}, .size = size},
          c.x[1] * c.kernel.h * c.kernel.w};
}

// Even and odd channels. Kernel rows of one block and of several. One to four tiles of outputs,
// whole and not. Rows of less than a tile of pixels, of one and of several, processed one or four
// at a time. Padding on one side, and images of several bands.
std::vector<JoinedCase> joined_cases() {
  return {
      {{3, 6, 14, 14}, 16, 5},
      {{2, 6, 9, 11}, 16, 5, {2, 2, 2, 2}},
      {{2, 1, 28, 28}, 9, 5, {2, 2, 2, 2}},
      {{2, 1, 7, 5}, 16, 3, {1, 1, 1, 1}},
      {{2, 3, 32, 32}, 16, 3, {1, 1, 1, 1}},
      {{1, 3, 9, 1}, 16, 3, {1, 1, 1, 1}},
      {{1, 3, 33, 47}, 64, 3, {1, 1, 1, 1}},
      {{2, 5, 8, 17}, 33, {1, 2}},
      {{1, 7, 6, 16}, 17, {4, 2}, {3, 0, 0, 1}},
      {{2, 8, 11, 31}, 48, {2, 3}, {0, 1, 2, 0}},
      {{2, 12, 10, 65}, 24, 3, {1, 1, 1, 1}},
      {{1, 8, 6, 80}, 1, {3, 6}, {1, 1, 2, 3}},
      {{1, 3, 120, 130}, 16, 7, {3, 3, 3, 3}},
      {{2, 4, 5, 4}, 20, 5, {4, 4, 4, 4}},
      {{1, 15, 4, 20}, 40, {3, 2}, {1, 1, 1, 0}},
  };
}

class ConvJoined : public testing::Test {
 protected:
  void SetUp() override {
    if (!kernels::has_tiles()) GTEST_SKIP() << "this CPU has no AMX";
  }
};

TEST_F(ConvJoined, ResultsArePlainSums) {
  for (const JoinedCase& c : joined_cases()) {
    ConvCall call = joined_call(c);
    check_call(call, DType::kBf16);
    call.bias = random_tensor({c.out_channels}, 3);
    call.terms += 1;
    check_call(call, DType::kBf16);
  }
}

TEST_F(ConvJoined, GradientsArePlainSums) {
  for (const JoinedCase& c : joined_cases()) check_call(joined_gradient(c), DType::kBf16);
  check_call(joined_gradient({{2, 16, 14, 13}, 30, 3, {1, 1, 1, 1}}), DType::kBf16);
}

// The convolution's last rows and columns of results read only padding.
TEST_F(ConvJoined, GradientsOfWidePadding) {
  for (const std::int64_t channels : {3, 8}) {
    const Sides padding{1, 5, 0, 40};
    const Size2d size = Conv2dAttrs{.padding = padding}.window(3).output_size({8, 9}, "conv2d");
    const ConvCall call{
        "conv2d_grad_input",
        kernels::conv::takes<kernels::conv::kDirectNarrow, kernels::conv::grad_input_problem>,
        run_direct_narrow_grad_input,
        joined_image({2, channels, size.h, size.w}, 1),
        random_tensor({channels, 20, 3, 3}, 2, DType::kBf16),
        Tensor(),
        {2, 20, 8, 9},
        Conv2dGradAttrs{.conv = {.padding = padding}, .size = {8, 9}},
        channels * 9};
    check_call(call, DType::kBf16);
  }
}

TEST_F(ConvJoined, TakesWeightsAndImagesInAnyLayout) {
  const JoinedCase c{{2, 6, 9, 11}, 16, 5, {2, 2, 2, 2}};
  for (ConvCall call : {joined_call(c), joined_gradient(c)}) {
    const auto expected = call.result_of(DType::kBf16).to_vector<float>();
    call.a = to_format(call.a, Format::kContiguous);
    call.b = to_format(call.b, Format::kChannelsLast);
    EXPECT_TRUE(call.result_of(DType::kBf16).to_vector<float>() == expected) << call.op;
  }
}

TEST_F(ConvJoined, AnyNumberOfThreadsGivesTheSameBits) {
  const JoinedCase small{{5, 6, 14, 14}, 16, 5};
  const JoinedCase large{{2, 3, 95, 101}, 40, 3, {1, 1, 1, 1}};
  test::expect_same_by_threads({joined_call(small), joined_gradient(small), joined_call(large)});
}

// Elements beside those of a kernel's row, or copied earlier, must not take part in it.
TEST_F(ConvJoined, WhatIsNotFiniteReachesOnlyItsNeighbours) {
  for (const std::int64_t channels : {1, 3, 5, 6, 12}) {
    constexpr std::int64_t kSize = 9;
    ConvCall call = joined_call({{2, channels, kSize, kSize}, 16, 3, {1, 1, 1, 1}});
    call.a.mutable_data<BFloat16>()[(4 * kSize + 4) * channels] = BFloat16(INFINITY);
    const Tensor rows = to_format(call.result_of(DType::kBf16), Format::kContiguous);
    const auto numbers = rows.to_vector<float>();
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      const std::size_t row = i / kSize % kSize, column = i % kSize;
      const bool is_first = i < 16 * kSize * kSize;
      const bool is_near = row >= 3 && row <= 5 && column >= 3 && column <= 5;
      ASSERT_EQ(std::isfinite(numbers[i]), !(is_first && is_near)) << channels << " at " << i;
    }
  }
}

TEST_F(ConvJoined, LeavesOtherCallsToOthers) {
  const Sides same{1, 1, 1, 1};
  const JoinedCase fits{{2, 12, 8, 8}, 64, 3, same};
  EXPECT_TRUE(is_taken(joined_call(fits)));
  EXPECT_TRUE(is_taken(joined_gradient(fits)));
  EXPECT_FALSE(is_taken(joined_call(fits), DType::kF32));
  EXPECT_FALSE(is_taken(joined_call({{0, 12, 8, 8}, 64, 3, same})));
  EXPECT_FALSE(is_taken(joined_call({{2, 12, 8, 8}, 65, 3, same})));
  EXPECT_FALSE(is_taken(joined_call({{2, 12, 8, 8}, 64, {3, 1}})));       // one column
  EXPECT_FALSE(is_taken(joined_call({{2, 14, 8, 8}, 64, 3, same})));      // 42 values: 3 of 14
  EXPECT_FALSE(is_taken(joined_call({{2, 16, 8, 8}, 64, 3, same})));      // oneDNN is as fast
  EXPECT_TRUE(is_taken(joined_gradient({{2, 16, 8, 8}, 64, 3, same})));   //
  EXPECT_FALSE(is_taken(joined_gradient({{2, 18, 8, 8}, 64, 3, same})));  //
  const auto with = [&](const Conv2dAttrs& attrs) {
    ConvCall call = joined_call(fits);
    call.attrs = attrs;
    const Size2d size = attrs.window(3).output_size({8, 8}, "conv2d");
    call.result = {2, 64, size.h, size.w};
    return call;
  };
  EXPECT_TRUE(is_taken(with({})));
  EXPECT_FALSE(is_taken(with({.stride = 2})));
  EXPECT_FALSE(is_taken(with({.stride = {1, 2}})));
  EXPECT_FALSE(is_taken(with({.dilation = 2})));
  ConvCall grouped = with({.groups = 2});
  grouped.b = random_tensor({64, 6, 3, 3}, 2, DType::kBf16);
  EXPECT_FALSE(is_taken(grouped));
  ConvCall padded = joined_gradient(fits);  // more than the kernel's extent
  padded.attrs = Conv2dGradAttrs{.conv = {.padding = {3, 3, 3, 3}}, .size = {4, 4}};
  padded.result = {2, 64, 4, 4};
  EXPECT_FALSE(is_taken(padded));
}

}  // namespace
}  // namespace mezzo
