// Tests convolutions whose windows do not overlap.
#include <cstdint>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "mezzo/kernels/cpu/conv/as_gemm/conv2d_im2col.h"
#include "mezzo/kernels/cpu/conv/choice/choose.h"
#include "mezzo/ops/cast.h"
#include "mezzo/ops/conv2d.h"
#include "mezzo/ops/conv2d_attrs.h"
#include "mezzo/ops/reduce.h"
#include "tests/unit/ops/conv_call.h"
#include "tests/unit/ops/support.h"

namespace mezzo {
namespace {

using kernels::conv::run_im2col;
using kernels::conv::run_im2col_grad_input;
using kernels::conv::run_im2col_grad_weight;
using test::check_call;
using test::ConvCall;
using test::is_taken;
using test::random_tensor;

struct PatchCase {
  Shape x;
  std::int64_t out_channels;
  Size2d kernel;
  Size2d stride;
};

// Images that are cut into patches completely, and with remaining rows and columns. Gaps between
// patches on one side and on both. A single patch. One row of patches.
std::vector<PatchCase> patch_cases() {
  return {
      {{2, 3, 8, 12}, 16, 4, 4},          {{3, 5, 11, 9}, 7, {2, 3}, {2, 3}},
      {{2, 32, 6, 6}, 64, 2, 2},          {{1, 3, 13, 17}, 8, {3, 2}, {5, 2}},
      {{2, 4, 10, 11}, 6, 2, {3, 4}},     {{2, 3, 16, 16}, 32, 16, 16},
      {{1, 1, 5, 30}, 3, {5, 1}, {5, 2}},
  };
}

Tensor image(const Shape& shape, std::uint64_t seed, DType dtype) {
  return to_format(random_tensor(shape, seed, dtype), Format::kChannelsLast);
}

Shape result_of(const PatchCase& c) {
  const Size2d size =
      Conv2dAttrs{.stride = c.stride}.window(c.kernel).output_size({c.x[2], c.x[3]}, "conv2d");
  return {c.x[0], c.out_channels, size.h, size.w};
}

Tensor weight_of(const PatchCase& c, DType dtype) {
  return random_tensor({c.out_channels, c.x[1], c.kernel.h, c.kernel.w}, 2, dtype);
}

ConvCall forward_call(const PatchCase& c, DType dtype) {
  return {"conv2d",
          kernels::conv::takes<kernels::conv::kIm2col, kernels::conv::forward_problem>,
          run_im2col,
          image(c.x, 1, dtype),
          weight_of(c, dtype),
          Tensor(),
          result_of(c),
          Conv2dAttrs{.stride = c.stride},
          c.x[1] * c.kernel.h * c.kernel.w};
}

ConvCall grad_input_call(const PatchCase& c, DType dtype, bool f32_result = false) {
  return {"conv2d_grad_input",
          kernels::conv::takes<kernels::conv::kIm2col, kernels::conv::grad_input_problem>,
          run_im2col_grad_input,
          image(result_of(c), 1, dtype),
          weight_of(c, dtype),
          Tensor(),
          c.x,
          Conv2dGradAttrs{
              .conv = {.stride = c.stride}, .size = {c.x[2], c.x[3]}, .f32_result = f32_result},
          c.out_channels};
}

ConvCall grad_weight_call(const PatchCase& c, DType dtype, bool f32_result = false) {
  const Shape result = result_of(c);
  return {"conv2d_grad_weight",
          kernels::conv::takes<kernels::conv::kIm2col, kernels::conv::grad_weight_problem>,
          run_im2col_grad_weight,
          image(result, 1, dtype),
          image(c.x, 2, dtype),
          Tensor(),
          {c.out_channels, c.x[1], c.kernel.h, c.kernel.w},
          Conv2dGradAttrs{.conv = {.stride = c.stride}, .size = c.kernel, .f32_result = f32_result},
          result[0] * result[2] * result[3]};
}

// Includes small ones, which are left to other kernels.
ConvCall any_size(ConvCall call) {
  call.supports = [](const KernelArgs&) { return Support::yes(); };
  return call;
}

class ConvPatches : public testing::TestWithParam<DType> {};

TEST_P(ConvPatches, ResultsAndGradientsArePlainSums) {
  const DType dtype = GetParam();
  for (const PatchCase& c : patch_cases()) {
    check_call(any_size(forward_call(c, dtype)), dtype);
    check_call(any_size(forward_call(c, dtype).with_bias(DType::kF32)), dtype);
    check_call(any_size(grad_input_call(c, dtype)), dtype);
    check_call(any_size(grad_weight_call(c, dtype)), dtype);
    if (!is_lower(dtype)) continue;
    check_call(any_size(grad_input_call(c, dtype, true)), DType::kF32);
    check_call(any_size(grad_weight_call(c, dtype, true)), DType::kF32);
  }
}

TEST_P(ConvPatches, TakeWhatIsFaster) {
  const DType dtype = GetParam();
  const PatchCase embedding{{2, 3, 32, 32}, 64, 16, 16};
  EXPECT_TRUE(is_taken(forward_call(embedding, dtype), dtype));
  EXPECT_TRUE(is_taken(grad_input_call(embedding, dtype), dtype));
  EXPECT_TRUE(is_taken(grad_weight_call(embedding, dtype), dtype));
  const PatchCase small{{2, 3, 8, 8}, 64, 4, 4};
  EXPECT_FALSE(is_taken(forward_call(small, dtype), dtype));
  EXPECT_TRUE(is_taken(grad_input_call(small, dtype), dtype));
  EXPECT_FALSE(is_taken(grad_weight_call(small, dtype), dtype));
  const PatchCase wide{{2, 384, 4, 4}, 64, 2, 2};
  EXPECT_TRUE(is_taken(forward_call(wide, dtype), dtype));
  EXPECT_FALSE(is_taken(grad_input_call(wide, dtype), dtype));
  ConvCall call = forward_call({{2, 3, 48, 48}, 8, 16, 15}, dtype);
  EXPECT_FALSE(is_taken(call, dtype));  // they overlap
  call = forward_call({{0, 3, 32, 32}, 8, 16, 16}, dtype);
  EXPECT_FALSE(is_taken(call, dtype));
  call = forward_call(embedding, dtype);
  call.attrs = Conv2dAttrs{.stride = 16, .padding = {8, 8, 8, 8}};
  call.result = {2, 64, 3, 3};
  EXPECT_FALSE(is_taken(call, dtype));
}

INSTANTIATE_TEST_SUITE_P(Dtypes, ConvPatches, testing::ValuesIn(test::kVectorDTypes),
                         [](const auto& dtype) { return std::string(name_of(dtype.param)); });

// The whole path, for a weight in either format.
TEST(ConvPatchesOfAnyFormat, GiveTheSameNumbers) {
  const PatchCase c{{2, 3, 32, 48}, 24, 16, 16};
  const auto gradients = [&](Format format) {
    const Tensor x = image(c.x, 1, DType::kF32).set_requires_grad(true);
    Tensor weight = to_format(weight_of(c, DType::kF32), format).detach();
    weight.set_requires_grad(true);
    test::SeeKernel seen("conv2d");
    sum(conv2d(x, weight, {}, {.stride = 16})).backward();
    EXPECT_EQ(seen.kernel, "cpu_im2col");
    return std::vector{x.grad().to_vector<float>(), weight.grad().to_vector<float>()};
  };
  EXPECT_EQ(gradients(Format::kContiguous), gradients(Format::kChannelsLast));
}

}  // namespace
}  // namespace mezzo
