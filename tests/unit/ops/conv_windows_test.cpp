// Gradients by images of few channels as sums of windows.
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "mezzo/kernels/cpu/conv2d_windows.h"
#include "mezzo/ops/cast.h"
#include "mezzo/ops/conv2d_attrs.h"
#include "mezzo/ops/conv_transpose2d.h"
#include "tests/unit/ops/conv_call.h"
#include "tests/unit/ops/support.h"

namespace mezzo {
namespace {

using kernels::conv::run_windows_grad_input;
using kernels::conv::supports_windows_grad_input;
using test::check_call;
using test::ConvCall;
using test::is_taken;
using test::random_tensor;

struct WindowCase {
  Shape x;
  std::int64_t out_channels;
  Size2d kernel;
  Conv2dAttrs attrs;
};

// Windows that overlap in both directions, in one and in none; rows of a window that fill vectors
// and that do not; images that end before the last window and behind it; padding on some sides,
// wider than the kernel's half; several passes over the batch.
std::vector<WindowCase> window_cases() {
  return {
      {{2, 3, 8, 8}, 64, 4, {.stride = 2, .padding = {1, 1, 1, 1}}},
      {{3, 1, 11, 9}, 32, {5, 3}, {.stride = {2, 1}, .padding = {2, 2, 0, 1}}},
      {{2, 8, 13, 10}, 40, {3, 4}, {.stride = {3, 2}, .padding = {0, 1, 3, 2}}},
      {{1, 5, 9, 16}, 33, 7, {.stride = 2, .padding = {3, 3, 3, 3}}},
      {{2, 4, 10, 11}, 32, 2, {.stride = {3, 4}}},
      {{2, 2, 6, 7}, 32, 3, {.padding = {1, 1, 1, 1}}},
      {{1, 3, 1, 2}, 32, 3, {.stride = 2, .padding = {1, 1, 1, 1}}},
      {{5, 3, 130, 126}, 32, 7, {.stride = 2, .padding = {3, 3, 3, 3}}},
  };
}

ConvCall windows_call(const WindowCase& c, DType dtype, bool f32_result = false) {
  const Size2d size = c.attrs.window(c.kernel).output_size({c.x[2], c.x[3]}, "conv2d");
  const Tensor grad = random_tensor({c.x[0], c.out_channels, size.h, size.w}, 1, dtype);
  return {"conv2d_grad_input",
          supports_windows_grad_input,
          run_windows_grad_input,
          to_format(grad, Format::kChannelsLast),
          random_tensor({c.out_channels, c.x[1], c.kernel.h, c.kernel.w}, 2, dtype),
          Tensor(),
          c.x,
          Conv2dGradAttrs{.conv = c.attrs, .size = {c.x[2], c.x[3]}, .f32_result = f32_result},
          c.out_channels * c.kernel.h * c.kernel.w};
}

class ConvWindows : public testing::TestWithParam<DType> {};

TEST_P(ConvWindows, ArePlainSums) {
  for (const WindowCase& c : window_cases()) {
    for (const bool f32_result : {false, true}) {
      if (f32_result && !is_lower(GetParam())) continue;
      ConvCall call = windows_call(c, GetParam(), f32_result);
      call.supports = [](const KernelArgs&) { return Support::yes(); };  // at stride 1, too
      check_call(call, f32_result ? DType::kF32 : GetParam());
    }
  }
}

TEST_P(ConvWindows, TakeImagesOfFewChannelsAtAStride) {
  const Conv2dAttrs half{.stride = 2, .padding = {1, 1, 1, 1}};
  EXPECT_TRUE(is_taken(windows_call({{2, 3, 8, 8}, 32, 4, half}, GetParam()), GetParam()));
  EXPECT_FALSE(is_taken(windows_call({{2, 9, 8, 8}, 32, 4, half}, GetParam()), GetParam()));
  EXPECT_FALSE(is_taken(windows_call({{2, 3, 8, 8}, 31, 4, half}, GetParam()), GetParam()));
  EXPECT_FALSE(is_taken(windows_call({{0, 3, 8, 8}, 32, 4, half}, GetParam()), GetParam()));
  EXPECT_FALSE(is_taken(windows_call({{2, 3, 8, 8}, 32, 3, {}}, GetParam()), GetParam()));
  const Conv2dAttrs apart{.stride = 2, .padding = {2, 2, 2, 2}, .dilation = 2};
  EXPECT_FALSE(is_taken(windows_call({{2, 3, 8, 8}, 32, 3, apart}, GetParam()), GetParam()));
}

// The last layer of a decoder is such a gradient.
TEST_P(ConvWindows, ComputeTransposedConvolutions) {
  const Tensor x = random_tensor({2, 64, 5, 6}, 1, GetParam());
  const Tensor weight = random_tensor({64, 3, 4, 4}, 2, GetParam());
  test::SeeKernel seen("conv2d_grad_input");
  conv_transpose2d(x, weight, random_tensor({3}, 3), {.stride = 2, .padding = 1});
  EXPECT_EQ(seen.kernel, "cpu_windows");
}

INSTANTIATE_TEST_SUITE_P(Dtypes, ConvWindows, testing::ValuesIn(test::kVectorDTypes),
                         [](const auto& dtype) { return std::string(name_of(dtype.param)); });

// Whoever adds them up, and however many images are computed at a time.
TEST(ConvWindowsOfThreads, AnyNumberOfThreadsGivesTheSameBits) {
  const Conv2dAttrs half{.stride = 2, .padding = {3, 3, 3, 3}};
  test::expect_same_by_threads({windows_call({{5, 3, 130, 126}, 32, 7, half}, DType::kBf16)});
}

}  // namespace
}  // namespace mezzo
