// Tests gradients with respect to images of few channels, as sums of windows (col2im) and as sums
// of rows.
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "mezzo/core/cpu.h"
#include "mezzo/kernels/cpu/conv/as_gemm/conv2d_col2im.h"
#include "mezzo/kernels/cpu/conv/choice/choose.h"
#include "mezzo/kernels/cpu/conv/planar/conv2d_row_sums.h"
#include "mezzo/kernels/cpu/gemm/tiles.h"
#include "mezzo/ops/cast.h"
#include "mezzo/ops/conv2d_attrs.h"
#include "mezzo/ops/conv_transpose2d.h"
#include "mezzo/ops/shape_ops.h"
#include "tests/unit/ops/conv_call.h"
#include "tests/unit/ops/support.h"

namespace mezzo {
namespace {

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

// Windows that overlap in both directions, in one and in none. Rows of a window that fill vectors
// and that do not. Images that end before or after the last window. Padding on some sides, wider
// than half the kernel. Several passes over the batch. Odd and few channels of the result.
std::vector<WindowCase> window_cases() {
  return {
      {{2, 3, 8, 8}, 64, 4, {.stride = 2, .padding = {1, 1, 1, 1}}},
      {{3, 1, 11, 9}, 32, {5, 3}, {.stride = {2, 1}, .padding = {2, 2, 0, 1}}},
      {{2, 8, 13, 10}, 40, {3, 4}, {.stride = {3, 2}, .padding = {0, 1, 3, 2}}},
      {{1, 5, 9, 16}, 33, 7, {.stride = 2, .padding = {3, 3, 3, 3}}},
      {{2, 4, 10, 11}, 32, 2, {.stride = {3, 4}}},
      {{2, 2, 6, 7}, 32, 3, {.padding = {1, 1, 1, 1}}},
      {{1, 3, 1, 2}, 32, 3, {.stride = 2, .padding = {1, 1, 1, 1}}},
      {{2, 6, 14, 14}, 16, 5, {}},
      {{2, 17, 7, 12}, 5, {2, 4}, {.padding = {1, 0, 2, 3}}},
      {{3, 1, 6, 19}, 1, {3, 2}, {.stride = {4, 1}}},
      {{5, 3, 130, 126}, 32, 7, {.stride = 2, .padding = {3, 3, 3, 3}}},
  };
}

struct Kernel {
  const char* name;
  Support (*supports)(const KernelArgs&);
  void (*run)(const KernelArgs&);
};
constexpr Kernel kWindows{
    "cpu_col2im", kernels::conv::takes<kernels::conv::kCol2im, kernels::conv::grad_input_problem>,
    kernels::conv::run_col2im_grad_input};
constexpr Kernel kRowSums{
    "cpu_row_sums",
    kernels::conv::takes<kernels::conv::kRowSums, kernels::conv::grad_input_problem>,
    kernels::conv::run_row_sums};

ConvCall grad_call(const Kernel& kernel, const WindowCase& c, DType dtype,
                   bool f32_result = false) {
  const Size2d size = c.attrs.window(c.kernel).output_size({c.x[2], c.x[3]}, "conv2d");
  const Tensor grad = random_tensor({c.x[0], c.out_channels, size.h, size.w}, 1, dtype);
  return {"conv2d_grad_input",
          kernel.supports,
          kernel.run,
          to_format(grad, Format::kChannelsLast),
          random_tensor({c.out_channels, c.x[1], c.kernel.h, c.kernel.w}, 2, dtype),
          Tensor(),
          c.x,
          Conv2dGradAttrs{.conv = c.attrs, .size = {c.x[2], c.x[3]}, .f32_result = f32_result},
          c.out_channels * c.kernel.h * c.kernel.w};
}

// Any shape, even if the kernel would not be chosen for it.
ConvCall any_grad_call(const Kernel& kernel, const WindowCase& c, DType dtype,
                       bool f32_result = false) {
  ConvCall call = grad_call(kernel, c, dtype, f32_result);
  call.supports = [](const KernelArgs&) { return Support::yes(); };
  return call;
}

class ConvWindows : public testing::TestWithParam<DType> {
 public:
  bool is_for_tiles() const { return GetParam() == DType::kBf16 && kernels::has_tiles(); }
};

TEST_P(ConvWindows, ArePlainSums) {
  for (const Kernel& kernel : {kWindows, kRowSums}) {
    for (const WindowCase& c : window_cases()) {
      check_call(any_grad_call(kernel, c, GetParam()), GetParam());
      if (is_lower(GetParam())) {
        check_call(any_grad_call(kernel, c, GetParam(), true), DType::kF32);
      }
    }
  }
}

// An odd number of channels is padded with zeros, and so are the vectors of a block: no infinity
// may be multiplied by them.
TEST_P(ConvWindows, InfiniteNumbersReachTheirWindowsOnly) {
  ConvCall call = any_grad_call(kRowSums, {{1, 3, 5, 40}, 5, 3, {.stride = {1, 2}}}, GetParam());
  const Shape& size = call.a.shape();
  call.a = to_format(full(size, 1, GetParam()), Format::kChannelsLast);
  constexpr std::int64_t kPixel = 9;
  const Tensor infinite = slice(slice(slice(call.a, 1, 4, 5), 2, 1, 2), 3, kPixel, kPixel + 1);
  copy_elements(full({1, 1, 1, 1}, INFINITY, GetParam()), infinite);
  const Tensor out = call.result_of(GetParam());
  for (const std::int64_t c : {0, 1, 2}) {
    for (std::int64_t h = 0; h < 5; ++h) {
      for (std::int64_t w = 0; w < 40; ++w) {
        const bool is_reached = h >= 1 && h < 4 && w >= 2 * kPixel && w < 2 * kPixel + 3;
        const Tensor number = slice(slice(slice(out, 1, c, c + 1), 2, h, h + 1), 3, w, w + 1);
        EXPECT_EQ(std::isfinite(number.item()), !is_reached) << c << " " << h << " " << w;
      }
    }
  }
}

TEST_P(ConvWindows, TakeImagesOfFewChannelsAtAStrideOnTheTileUnit) {
  const auto takes = [&](const WindowCase& c) {
    return is_taken(grad_call(kWindows, c, GetParam()), GetParam());
  };
  const Conv2dAttrs half{.stride = 2, .padding = {1, 1, 1, 1}};
  EXPECT_EQ(takes({{2, 3, 8, 8}, 32, 4, half}), is_for_tiles());
  EXPECT_FALSE(takes({{2, 9, 8, 8}, 32, 4, half}));
  EXPECT_FALSE(takes({{2, 3, 8, 8}, 31, 4, half}));
  EXPECT_FALSE(takes({{0, 3, 8, 8}, 32, 4, half}));
  EXPECT_FALSE(takes({{2, 3, 8, 8}, 32, 3, {}}));
  EXPECT_FALSE(takes({{2, 3, 8, 8}, 32, 3, {.stride = 2, .dilation = 2}}));
}

// Rows of five pixels of six channels fill two vectors of 16 or four of 8; the channels alone fill
// less than half a vector. With 16 channels it is the other way around.
TEST_P(ConvWindows, AreSumsOfRowsWhereThoseFillVectors) {
  const auto takes = [&](const WindowCase& c) {
    return is_taken(grad_call(kRowSums, c, GetParam()), GetParam());
  };
  const CpuFeatures& cpu = cpu_features();
  const Conv2dAttrs half{.stride = 2, .padding = {1, 1, 1, 1}};
  // Six channels leave a quarter of NEON's vectors empty, too: more than is lost to adding up rows,
  // unless a dot product has half of the multiplications done.
  const bool by_dots =
      GetParam() == DType::kBf16 && kernels::bf16_unit() == kernels::Bf16Unit::kDots;
  EXPECT_EQ(takes({{2, 6, 14, 14}, 16, 5, {}}),
            (cpu.avx512 && !is_for_tiles()) || (cpu.neon && !by_dots));
  EXPECT_EQ(takes({{2, 3, 8, 8}, 32, 4, half}), has_vectors() && !is_for_tiles());
  EXPECT_FALSE(takes({{2, 16, 14, 14}, 16, 5, {}}));
  EXPECT_FALSE(takes({{2, 6, 14, 14}, 16, 1, {}}));
  EXPECT_FALSE(takes({{0, 6, 14, 14}, 16, 5, {}}));
  EXPECT_FALSE(takes({{2, 6, 14, 14}, 16, 5, {.dilation = 2}}));
  EXPECT_FALSE(takes({{2, 6, 14, 14}, 16, 5, {.groups = 2}}));
}

// The last layer of a decoder is such a gradient.
TEST_P(ConvWindows, ComputeTransposedConvolutions) {
  if (!has_vectors()) GTEST_SKIP() << "needs AVX2 or NEON";
  const Tensor x = random_tensor({2, 64, 5, 6}, 1, GetParam());
  const Tensor weight = random_tensor({64, 3, 4, 4}, 2, GetParam());
  test::SeeKernel seen("conv2d_grad_input");
  conv_transpose2d(x, weight, random_tensor({3}, 3), {.stride = 2, .padding = 1});
  EXPECT_EQ(seen.kernel, is_for_tiles() ? kWindows.name : kRowSums.name);
}

INSTANTIATE_TEST_SUITE_P(Dtypes, ConvWindows, testing::ValuesIn(test::kVectorDTypes),
                         [](const auto& dtype) { return std::string(name_of(dtype.param)); });

// Any thread may sum them, and any number of images may be computed at a time.
TEST(ConvWindowsOfThreads, AnyNumberOfThreadsGivesTheSameBits) {
  const WindowCase c{{5, 3, 130, 126}, 32, 7, {.stride = 2, .padding = {3, 3, 3, 3}}};
  test::expect_same_by_threads(
      {any_grad_call(kWindows, c, DType::kBf16), any_grad_call(kRowSums, c, DType::kBf16)});
}

}  // namespace
}  // namespace mezzo
