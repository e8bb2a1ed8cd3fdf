// Tests convolutions of images of a few pixels as one matrix product, against plain sums.
#include <gtest/gtest.h>

#include "mezzo/kernels/cpu/conv/as_gemm/conv2d_fully_connected.h"
#include "mezzo/kernels/cpu/conv/choice/choose.h"
#include "mezzo/ops/arithmetic.h"
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
using test::random_tensor;

constexpr Sides kOne{1, 1, 1, 1};

struct WholeCase {
  Shape x;
  std::int64_t out_channels;
  Size2d kernel;
  Conv2dAttrs attrs{};

  Shape weight() const { return {out_channels, x[1], kernel.h, kernel.w}; }
  Shape y() const {
    const Size2d out = attrs.window(kernel).output_size({x[2], x[3]}, "conv2d");
    return {x[0], out_channels, out.h, out.w};
  }
};

// Several pixels, and one. Kernels of one element, as large as the image, and larger. Unequal
// sides, strides, dilation. Pairs without a common tap. One channel.
std::vector<WholeCase> whole_cases() {
  return {
      {{37, 9, 2, 2}, 21, 3, {.padding = kOne}},
      {{38, 33, 1, 1}, 16, 3, {.padding = kOne}},
      {{35, 16, 1, 1}, 17, 1},
      {{33, 7, 2, 1}, 5, 3, {.padding = kOne}},
      {{33, 7, 2, 2}, 5, 3, {.stride = 2, .padding = kOne}},
      {{32, 6, 3, 2}, 4, 5, {.padding = {2, 2, 2, 2}}},
      {{32, 3, 3, 3}, 4, {2, 3}, {.dilation = {2, 1}}},
      {{36, 8, 5, 5}, 10, 5},
      {{32, 6, 3, 3}, 5, 3, {.stride = {1, 2}, .padding = {0, 0, 1, 1}}},
      {{41, 1, 2, 2}, 1, 3, {.padding = {0, 2, 1, 1}}},
  };
}

ConvCall forward_call(const WholeCase& c, DType dtype) {
  return {"conv2d",
          kernels::conv::takes<kernels::conv::kFullyConnected, kernels::conv::forward_problem>,
          kernels::conv::run_fully_connected,
          random_tensor(c.x, 1, dtype),
          random_tensor(c.weight(), 2, dtype),
          random_tensor({c.out_channels}, 3),
          c.y(),
          c.attrs,
          c.weight().numel() / c.out_channels + 1};
}

ConvCall grad_input_call(const WholeCase& c, DType dtype) {
  return {"conv2d_grad_input",
          kernels::conv::takes<kernels::conv::kFullyConnected, kernels::conv::grad_input_problem>,
          kernels::conv::run_fully_connected_grad_input,
          random_tensor(c.y(), 1, dtype),
          random_tensor(c.weight(), 2, dtype),
          Tensor(),
          c.x,
          Conv2dGradAttrs{c.attrs, {c.x[2], c.x[3]}, true},
          c.weight().numel() / c.x[1]};
}

ConvCall grad_weight_call(const WholeCase& c, DType dtype) {
  return {"conv2d_grad_weight",
          kernels::conv::takes<kernels::conv::kFullyConnected, kernels::conv::grad_weight_problem>,
          kernels::conv::run_fully_connected_grad_weight,
          random_tensor(c.y(), 1, dtype),
          random_tensor(c.x, 2, dtype),
          Tensor(),
          c.weight(),
          Conv2dGradAttrs{c.attrs, c.kernel, true},
          c.x[0] * c.y()[2] * c.y()[3]};
}

TEST(ConvWhole, ResultsAndGradientsArePlainSums) {
  for (const DType dtype : test::kVectorDTypes) {
    for (const WholeCase& c : whole_cases()) {
      check_call(forward_call(c, dtype), dtype);
      check_call(grad_input_call(c, dtype), DType::kF32);
      check_call(grad_weight_call(c, dtype), DType::kF32);
    }
  }
}

TEST(ConvWhole, GradientsAreRoundedOnceIfTheyHave16Bits) {
  for (const DType dtype : {DType::kBf16, DType::kF16}) {
    const WholeCase c{{39, 12, 2, 2}, 7, 3, {.padding = kOne}};
    const ConvCall call = grad_weight_call(c, dtype);
    EXPECT_TRUE(call.result_of(dtype).to_vector<float>() ==
                cast(call.result_of(DType::kF32), dtype).to_vector<float>());
    check_call(grad_input_call(c, dtype), dtype);
  }
}

TEST(ConvWhole, ReadsAndWritesAnyLayout) {
  const WholeCase c{{34, 5, 2, 2}, 6, 3, {.padding = kOne}};
  ConvCall call = grad_weight_call(c, DType::kF32);
  const std::vector<float> expected = call.result_of(DType::kF32).to_vector<float>();
  for (Tensor* tensor : {&call.a, &call.b}) *tensor = to_format(*tensor, Format::kChannelsLast);
  EXPECT_TRUE(call.result_of(DType::kF32).to_vector<float>() == expected);
}

TEST(ConvWhole, TheMatrixFollowsChangesOfTheWeight) {
  const Tensor x = random_tensor({32, 8, 2, 2}, 1);
  const Tensor weight = random_tensor({8, 8, 3, 3}, 2).set_requires_grad(true);
  const Conv2dOptions padded{.padding = 1};
  const std::vector<float> before = conv2d(x, weight, {}, padded).to_vector<float>();
  EXPECT_TRUE(conv2d(x, weight, {}, padded).to_vector<float>() == before);
  weight.mutable_data<float>()[4] += 1;  // the middle tap connects every pixel with itself
  const std::vector<float> after = conv2d(x, weight, {}, padded).to_vector<float>();
  const double tolerance = test::sum_tolerance(4 * 8);
  EXPECT_NEAR(after[0] - before[0], x.to_vector<float>()[0], 2 * tolerance);
  // Another geometry of the same weight has its own matrix.
  EXPECT_NEAR(conv2d(x, weight, {}, {.stride = 2, .padding = 1}).to_vector<float>()[0], after[0],
              tolerance);
}

// Views of one block that begin at the same element.
TEST(ConvWhole, TheMatrixOfAViewIsNotThatOfTheWhole) {
  const NoGrad no_grad;
  const Tensor x = random_tensor({32, 8, 2, 2}, 1, DType::kF16);
  const Tensor low = test::parameter({8, 8, 3, 3}, 2).astype(DType::kF16);
  const Tensor plain = test::plain_copy(low);
  const auto convolved = [&](const Tensor& weight) {
    return conv2d(x, weight, {}, {.padding = 1}).to_vector<float>();
  };
  for (int use = 0; use < 2; ++use) {
    EXPECT_TRUE(convolved(low) == convolved(plain));
    EXPECT_TRUE(convolved(transpose(low, 0, 1)) == convolved(transpose(plain, 0, 1)));
    EXPECT_TRUE(convolved(slice(low, 0, 0, 5)) == convolved(slice(plain, 0, 0, 5)));
  }
}

TEST(ConvWhole, LeavesWhatWouldBeMostlyZerosToOthers) {
  for (const WholeCase& c :
       {WholeCase{{40, 4, 4, 4}, 4, 3, {.padding = kOne}}, WholeCase{{40, 4, 2, 2}, 4, 1},
        WholeCase{{40, 4, 2, 2}, 4, 3, {.padding = {9, 9, 9, 9}}},
        WholeCase{{40, 4, 56, 56}, 4, 3, {.padding = kOne}},
        WholeCase{{31, 4, 2, 2}, 4, 3, {.padding = kOne}}}) {
    const ConvCall call = forward_call(c, DType::kF32);
    Tensor out = empty(c.y(), DType::kF32, Format::kChannelsLast);
    const auto in = call.inputs();
    EXPECT_FALSE(call.supports({in, {&out, 1}, call.attrs})) << concat(c.x);
  }
}

}  // namespace
}  // namespace mezzo
