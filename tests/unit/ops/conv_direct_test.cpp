// Tests convolutions with kernels of several taps on the tile unit.
#include <cmath>
#include <cstdint>
#include <vector>

#include <gtest/gtest.h>

#include "mezzo/kernels/cpu/conv/choice/choose.h"
#include "mezzo/kernels/cpu/conv/direct/conv2d_direct.h"
#include "mezzo/kernels/cpu/gemm/tiles.h"
#include "mezzo/ops/cast.h"
#include "mezzo/ops/conv2d.h"
#include "mezzo/ops/conv2d_attrs.h"
#include "mezzo/ops/reduce.h"
#include "mezzo/ops/shape_ops.h"
#include "tests/unit/ops/conv_call.h"
#include "tests/unit/ops/support.h"

namespace mezzo {
namespace {

using kernels::conv::run_direct;
using kernels::conv::run_direct_grad_input;
using kernels::conv::run_direct_transposed;
using test::check_call;
using test::ConvCall;
using test::is_taken;
using test::random_tensor;

struct TapsCase {
  Shape x;
  std::int64_t out_channels;
  Size2d kernel;
  Conv2dAttrs attrs;
};

Size2d result_size(const TapsCase& c) {
  return c.attrs.window(c.kernel).output_size({c.x[2], c.x[3]}, "conv2d");
}

Tensor image(const Shape& shape, std::uint64_t seed) {
  return to_format(random_tensor(shape, seed, DType::kBf16), Format::kChannelsLast);
}

Tensor weight_of(const TapsCase& c) {
  return random_tensor({c.out_channels, c.x[1], c.kernel.h, c.kernel.w}, 2, DType::kBf16);
}

ConvCall forward_call(const TapsCase& c) {
  const Size2d size = result_size(c);
  return {"conv2d",
          kernels::conv::takes<kernels::conv::kDirect, kernels::conv::forward_problem>,
          run_direct,
          image(c.x, 1),
          weight_of(c),
          Tensor(),
          {c.x[0], c.out_channels, size.h, size.w},
          c.attrs,
          c.x[1] * c.kernel.h * c.kernel.w};
}

ConvCall grad_input_call(const TapsCase& c) {
  const Size2d size = result_size(c);
  return {"conv2d_grad_input",
          kernels::conv::takes<kernels::conv::kDirect, kernels::conv::grad_input_problem>,
          run_direct_grad_input,
          image({c.x[0], c.out_channels, size.h, size.w}, 1),
          weight_of(c),
          Tensor(),
          c.x,
          Conv2dGradAttrs{.conv = c.attrs, .size = {c.x[2], c.x[3]}},
          c.out_channels * c.kernel.h * c.kernel.w};
}

// The same sums as a transposed convolution.
ConvCall transposed_call(const TapsCase& c) {
  ConvCall call = grad_input_call(c);
  call.op = "conv_transpose2d";
  call.supports = kernels::conv::takes<kernels::conv::kDirect, kernels::conv::transposed_problem>;
  call.run = run_direct_transposed;
  const Size2d from = result_size(c);
  const Size2d span = c.attrs.window(c.kernel).span();
  const Sides& padding = c.attrs.padding;
  const Size2d reached{(from.h - 1) * c.attrs.stride.h + span.h - padding.top - padding.bottom,
                       (from.w - 1) * c.attrs.stride.w + span.w - padding.left - padding.right};
  call.attrs = ConvTranspose2dAttrs{c.attrs, {c.x[2] - reached.h, c.x[3] - reached.w}};
  return call;
}

// Strips that end within rows, between images and after the last one. Kernels with and without a
// middle. One panel of channels and several, whole and not. More weight than is read at a time.
std::vector<TapsCase> cases_at_stride_1() {
  return {
      {{2, 64, 7, 7}, 64, 3, {.padding = {1, 1, 1, 1}}},
      {{3, 32, 8, 8}, 96, 3, {.padding = {1, 1, 1, 1}}},
      {{5, 96, 3, 4}, 32, 3, {.padding = {1, 1, 1, 1}}},
      {{1, 160, 5, 6}, 64, 3, {}},
      {{4, 64, 1, 1}, 32, 3, {.padding = {1, 1, 1, 1}}},
      {{2, 32, 6, 5}, 32, {2, 1}, {.padding = {0, 1, 0, 0}}},
      {{2, 32, 6, 5}, 32, {1, 4}, {.padding = {0, 0, 2, 1}}},
      {{2, 64, 7, 8}, 64, 5, {.padding = {2, 2, 2, 2}}},
      {{2, 32, 7, 7}, 32, 3, {.padding = {2, 2, 2, 2}, .dilation = 2}},
      {{1, 32, 8, 8}, 32, {3, 2}, {.padding = {0, 3, 1, 2}, .dilation = {2, 3}}},
      {{2, 512, 3, 3}, 160, 3, {.padding = {1, 1, 1, 1}}},
  };
}

// Every remainder with and without taps, including images that end before the last tap or lie
// between taps.
std::vector<TapsCase> cases_at_strides() {
  return {
      {{2, 64, 14, 14}, 64, 3, {.stride = 2, .padding = {1, 1, 1, 1}}},
      {{3, 32, 9, 8}, 96, 3, {.stride = 2, .padding = {1, 1, 1, 1}}},
      {{2, 96, 9, 11}, 32, 3, {.stride = 3}},
      {{2, 32, 13, 10}, 64, 2, {.stride = 3, .padding = {0, 1, 1, 0}}},
      {{2, 32, 12, 12}, 32, 4, {.stride = 2, .padding = {1, 1, 1, 1}}},
      {{1, 32, 10, 17}, 32, {3, 5}, {.stride = {1, 2}, .padding = {0, 2, 3, 1}}},
      {{2, 32, 17, 16}, 32, 3, {.stride = 2, .padding = {2, 2, 2, 2}, .dilation = 2}},
      {{2, 32, 15, 13}, 32, 3, {.stride = {3, 2}, .padding = {1, 0, 2, 2}, .dilation = {2, 3}}},
      {{1, 32, 1, 3}, 32, 3, {.stride = 2, .padding = {1, 1, 1, 1}}},
      {{2, 32, 1, 1}, 32, 2, {.stride = 2, .padding = {1, 1, 1, 1}, .dilation = 2}},
  };
}

// More rows than are copied at a time.
const TapsCase kSeveralBands{{2, 32, 181, 183}, 32, 3, {.stride = 2, .padding = {1, 1, 1, 1}}};

// Pixels that no window reads, windows beyond the image, panels of channels.
std::vector<TapsCase> cases_of_sparse_windows() {
  return {
      {{2, 64, 15, 13}, 32, {1, 2}, {.stride = {4, 3}}},
      {{2, 32, 9, 1}, 32, {2, 5}, {.stride = {3, 2}, .padding = {1, 1, 2, 2}}},
      {{1, 32, 3, 4}, 64, {6, 5}, {.stride = 4, .padding = {2, 3, 2, 2}}},
      {{3, 160, 11, 12}, 64, 3, {.stride = 2, .padding = {1, 1, 1, 1}}},
      {{2, 32, 21, 22},
       32,
       {3, 2},
       {.stride = {2, 3}, .padding = {2, 0, 1, 4}, .dilation = {3, 2}}},
  };
}

class ConvTaps : public testing::Test {
 protected:
  void SetUp() override {
    if (!kernels::has_tiles()) GTEST_SKIP() << "this CPU has no AMX";
  }
};

TEST_F(ConvTaps, ResultsAndGradientsArePlainSums) {
  for (const TapsCase& c : cases_at_stride_1()) {
    check_call(forward_call(c), DType::kBf16);
    check_call(grad_input_call(c), DType::kBf16);
  }
}

TEST_F(ConvTaps, GradientsAtStridesArePlainSums) {
  for (const TapsCase& c : cases_at_strides()) check_call(grad_input_call(c), DType::kBf16);
  check_call(grad_input_call(kSeveralBands), DType::kBf16);
}

// Pixels with each remainder modulo the stride, read or not, in images that end before the last.
TEST_F(ConvTaps, ResultsAtStridesArePlainSums) {
  for (const TapsCase& c : cases_at_strides()) check_call(forward_call(c), DType::kBf16);
  for (const TapsCase& c : cases_of_sparse_windows()) check_call(forward_call(c), DType::kBf16);
  check_call(forward_call(kSeveralBands), DType::kBf16);
}

// One bias per channel, added before the sums are rounded, and as the only summand.
TEST_F(ConvTaps, TakeABias) {
  for (const DType dtype : {DType::kF32, DType::kBf16}) {
    for (const TapsCase& c : cases_at_stride_1()) {
      check_call(forward_call(c).with_bias(dtype), DType::kBf16);
      check_call(transposed_call(c).with_bias(dtype), DType::kBf16);
    }
    for (const TapsCase& c : cases_at_strides()) {
      check_call(forward_call(c).with_bias(dtype), DType::kBf16);
      check_call(transposed_call(c).with_bias(dtype), DType::kBf16);
    }
    check_call(transposed_call(kSeveralBands).with_bias(dtype), DType::kBf16);
  }
}

TEST_F(ConvTaps, TransposedConvolutionsAreGradients) {
  std::vector<TapsCase> cases = cases_at_strides();
  cases.push_back(kSeveralBands);
  for (const TapsCase& c : cases) {
    EXPECT_EQ(transposed_call(c).result_of(DType::kBf16).to_vector<float>(),
              grad_input_call(c).result_of(DType::kBf16).to_vector<float>());
  }
}

TEST_F(ConvTaps, AnyNumberOfThreadsGivesTheSameBits) {
  const TapsCase small{{5, 96, 7, 8}, 64, 3, {.padding = {1, 1, 1, 1}}};
  const TapsCase strided{{3, 64, 29, 31}, 32, 3, {.stride = 2, .padding = {1, 1, 1, 1}}};
  test::expect_same_by_threads({forward_call(small), grad_input_call(small), forward_call(strided),
                                grad_input_call(strided)});
}

// Memory between rows, between images and after the last image is not read.
TEST_F(ConvTaps, WhatIsNotFiniteReachesOnlyItsNeighbours) {
  ConvCall call = forward_call({{2, 32, 5, 5}, 32, 3, {.padding = {1, 1, 1, 1}}});
  call.a.mutable_data<BFloat16>()[(24 * 32) + 5] =
      BFloat16(INFINITY);  // the first image's last pixel
  const Tensor rows = to_format(call.result_of(DType::kBf16), Format::kContiguous);
  const auto numbers = rows.to_vector<float>();
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const std::size_t image = i / (25UL * 32), row = i / 5 % 5, column = i % 5;
    const bool is_neighbour = image == 0 && row >= 3 && column >= 3;
    EXPECT_EQ(std::isfinite(numbers[i]), !is_neighbour) << i;
  }
}

// Changing the parameter renews the packed weight.
TEST_F(ConvTaps, FollowsChangesOfTheWeight) {
  const Tensor weight = random_tensor({64, 64, 3, 3}, 2).set_requires_grad(true);
  const Tensor x = image({2, 64, 9, 9}, 1);
  const auto gradient = [&](const Tensor& w) {
    const Tensor leaf = x.detach().set_requires_grad(true);
    const Tensor y = conv2d(leaf, cast(w, DType::kBf16), {}, {.stride = 2, .padding = 1});
    test::SeeKernel seen("conv2d_grad_input");
    sum(y).backward();
    EXPECT_EQ(seen.kernel, "cpu_direct");
    return leaf.grad().to_vector<float>();
  };
  for (int step = 0; step < 3; ++step) {
    EXPECT_TRUE(gradient(weight) == gradient(test::plain_copy(weight))) << step;
    weight.mutable_data<float>()[step] += 1;
  }
}

TEST_F(ConvTaps, LeavesOtherCallsToOthers) {
  const Conv2dAttrs same{.padding = {1, 1, 1, 1}};
  const TapsCase fits{{2, 64, 8, 8}, 64, 3, same};
  EXPECT_TRUE(is_taken(forward_call(fits)));
  EXPECT_TRUE(is_taken(grad_input_call(fits)));
  EXPECT_FALSE(is_taken(forward_call(fits), DType::kF32));
  EXPECT_FALSE(is_taken(forward_call({{2, 48, 8, 8}, 64, 3, same})));       // not whole tiles
  EXPECT_FALSE(is_taken(forward_call({{2, 64, 8, 8}, 48, 3, same})));       //
  EXPECT_FALSE(is_taken(forward_call({{2, 64, 8, 8}, 64, 1, {}})));         // one tap
  EXPECT_FALSE(is_taken(forward_call({{0, 64, 8, 8}, 64, 3, same})));       //
  EXPECT_FALSE(is_taken(forward_call({{2, 64, 9, 8}, 64, 3, same})));       // oneDNN is as fast
  EXPECT_FALSE(is_taken(grad_input_call({{2, 64, 17, 16}, 64, 3, same})));  //
  const Conv2dAttrs strided{.stride = 2, .padding = {1, 1, 1, 1}};
  EXPECT_TRUE(is_taken(forward_call({{2, 64, 33, 33}, 64, 3, strided})));
  EXPECT_FALSE(is_taken(forward_call({{16, 64, 33, 33}, 64, 3, strided})));  // oneDNN is as fast
  EXPECT_TRUE(is_taken(forward_call({{16, 64, 33, 33}, 64, 4, strided})));   // but not trusted
  EXPECT_TRUE(is_taken(grad_input_call({{2, 64, 33, 33}, 64, 3, strided})));
  const Conv2dAttrs wide{.padding = {3, 3, 3, 3}};
  EXPECT_FALSE(is_taken(forward_call({{2, 64, 3, 3}, 64, 3, wide})));  // more than the kernel reads
  TapsCase grouped{{2, 64, 8, 8}, 64, 3, {.padding = {1, 1, 1, 1}, .groups = 2}};
  ConvCall in_groups = forward_call(grouped);
  in_groups.b = random_tensor({64, 32, 3, 3}, 2, DType::kBf16);
  EXPECT_FALSE(is_taken(in_groups));
}

}  // namespace
}  // namespace mezzo
