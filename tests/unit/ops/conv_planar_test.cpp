// Tests the kernel of conv2d and conv2d_grad_input for few channels of the result, on every shape.
#include <cmath>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "mezzo/core/cpu.h"
#include "mezzo/kernels/cpu/conv/choice/choose.h"
#include "mezzo/kernels/cpu/conv/planar/conv2d_planar.h"
#include "mezzo/ops/conv2d_attrs.h"
#include "tests/unit/ops/conv_call.h"
#include "tests/unit/ops/planar_cases.h"
#include "tests/unit/ops/support.h"

namespace mezzo {
namespace {

using test::ConvCall;
using test::PlanarCase;

Support always(const KernelArgs& /*args*/) { return Support::yes(); }

ConvCall forward(const PlanarCase& c, DType dtype, bool has_bias = true) {
  return {"conv2d",
          always,
          kernels::conv::run_planar,
          test::random_tensor(c.x, 1, dtype),
          test::random_tensor(c.weight(), 2, dtype),
          has_bias ? test::random_tensor({c.out_channels}, 3, dtype) : Tensor(),
          c.y(),
          Attrs(c.attrs),
          c.x[1] * c.kernel.h * c.kernel.w + 1};
}

// The gradient with respect to an image like x, for a convolution whose result has x's channels.
ConvCall grad_input(const PlanarCase& c, DType dtype) {
  const Shape y = c.y();
  return {"conv2d_grad_input",
          always,
          kernels::conv::run_planar_grad_input,
          test::random_tensor({c.x[0], c.x[1], y[2], y[3]}, 1, dtype),
          test::random_tensor({c.x[1], c.out_channels, c.kernel.h, c.kernel.w}, 2, dtype),
          Tensor(),
          {c.x[0], c.out_channels, c.x[2], c.x[3]},
          Attrs(Conv2dGradAttrs{c.attrs, {c.x[2], c.x[3]}}),
          c.x[1] * c.kernel.h * c.kernel.w};
}

// More padding than kernel at both ends, a dilated kernel, and one with more columns than two
// vectors have elements.
std::vector<PlanarCase> odd_cases() {
  std::vector<PlanarCase> cases = test::odd_planar_cases();
  cases.push_back({{1, 2, 20, 30}, 3, {2, 2}, {.padding = {5, 4, 3, 5}}});
  cases.push_back({{2, 2, 24, 25}, 1, {3, 3}, {.padding = {2, 2, 2, 2}, .dilation = 2}});
  cases.push_back({{1, 2, 3, 60}, 2, {2, 45}});
  return cases;
}

std::vector<PlanarCase> all_cases() {
  std::vector<PlanarCase> cases =
      test::small_planar_cases({1, 2, 3, 4, 7, 8, 9, 17}, {1, 2, 3, 4, 5, 6, 7, 8});
  for (const PlanarCase& c : odd_cases()) cases.push_back(c);
  return cases;
}

// Gradients with other strides are left to other kernels.
bool has_gradient(const PlanarCase& c) { return c.attrs.stride == Size2d(1); }

TEST(ConvPlanar, IsThePlainSum) {
  for (const DType dtype : test::kVectorDTypes) {
    for (const PlanarCase& c : all_cases()) test::check_call(forward(c, dtype), dtype);
  }
}

TEST(ConvPlanar, TheImagesGradientIsThePlainSum) {
  for (const DType dtype : test::kVectorDTypes) {
    for (const PlanarCase& c : all_cases()) {
      if (has_gradient(c)) test::check_call(grad_input(c, dtype), dtype);
    }
  }
}

TEST(ConvPlanar, WithoutABiasSumsBeginWithZero) {
  test::check_call(forward({{2, 9, 12, 20}, 5, {3, 3}}, DType::kF32, false), DType::kF32);
}

TEST(ConvPlanar, IsTheSameWithEveryNumberOfThreads) {
  for (const PlanarCase& c : odd_cases()) {
    const auto with_threads = [&](int threads) {
      const test::Threads guard(threads);
      return forward(c, DType::kBf16).result_of(DType::kBf16).to_vector<float>();
    };
    const std::vector<float> expected = with_threads(1);
    EXPECT_EQ(with_threads(2), expected) << concat(c.x);
    EXPECT_EQ(with_threads(3), expected) << concat(c.x);
  }
}

TEST(ConvPlanar, ReadsAnyLayout) {
  for (const DType dtype : test::kVectorDTypes) {
    const PlanarCase c{{2, 3, 6, 20}, 6, {3, 3}};
    ConvCall call = forward(c, dtype);
    const std::vector<float> expected = call.result_of(dtype).to_vector<float>();
    for (Tensor* operand : {&call.a, &call.b}) {
      const Tensor last = empty(operand->shape(), dtype, Format::kChannelsLast);
      copy_elements(*operand, last);
      *operand = last;
    }
    EXPECT_EQ(call.result_of(dtype).to_vector<float>(), expected);
  }
}

// No sum includes a foreign element: neither neighbours of the image and the kernel, nor what
// memory held before.
TEST(ConvPlanar, ANanReachesJustTheSumsThatMeetIt) {
  for (const PlanarCase& c : all_cases()) {
    ConvCall call = forward(c, DType::kF32);
    call.a.mutable_data<float>()[call.a.numel() / 2] = std::numeric_limits<float>::quiet_NaN();
    const std::vector<float> got = call.result_of(DType::kF32).to_vector<float>();
    const std::vector<double> want = test::plain_call(call, false);
    for (std::size_t i = 0; i < got.size(); ++i) {
      ASSERT_EQ(std::isnan(got[i]), std::isnan(want[i])) << concat(c.x, c.weight(), " at ", i);
    }
  }
}

TEST(ConvPlanar, WritesNothingBesideItsResult) {
  for (const DType dtype : test::kVectorDTypes) {
    for (const PlanarCase& c : odd_cases()) {
      const ConvCall call = forward(c, dtype);
      const Tensor like = empty(call.result, dtype, Format::kChannelsLast);
      const std::int64_t size = like.numel();
      const Tensor room = full({size + 16}, 7, dtype);
      Tensor out = alias(room, call.result, like.strides(), 0);
      const auto inputs = call.inputs();
      call.run({inputs, {&out, 1}, call.attrs});
      const std::vector<float> got = room.to_vector<float>();
      for (std::int64_t i = size; i < size + 16; ++i) {
        ASSERT_EQ(got[static_cast<std::size_t>(i)], 7)
            << concat(c.x, ", ", dtype, " at ", i - size);
      }
    }
  }
}

TEST(ConvPlanar, IsTakenWhereVectorsOfChannelsWouldBeEmpty) {
  if (!has_vectors()) GTEST_SKIP() << "needs AVX2 or NEON";
  const auto taken = [](const PlanarCase& c, DType dtype) {
    const ConvCall call = forward(c, dtype);
    Tensor out = empty(call.result, dtype, Format::kChannelsLast);
    const auto inputs = call.inputs();
    return static_cast<bool>(
        kernels::conv::takes<kernels::conv::kPlanar, kernels::conv::forward_problem>(
            {inputs, {&out, 1}, call.attrs}));
  };
  const Conv2dAttrs same{.padding = {2, 2, 2, 2}};
  for (const DType dtype : test::kVectorDTypes) {
    EXPECT_TRUE(taken({{4, 1, 28, 28}, 1, {5, 5}, same}, dtype)) << concat(dtype);
    EXPECT_FALSE(taken({{4, 1, 28, 28}, 9, {5, 5}, same}, dtype)) << concat(dtype);
    EXPECT_FALSE(taken({{4, 64, 28, 28}, 4, {1, 1}}, dtype)) << concat(dtype);
    EXPECT_FALSE(taken({{4, 2, 28, 28}, 1, {5, 5}, {.padding = {2, 2, 2, 2}, .groups = 2}}, dtype))
        << concat(dtype);
  }
}

}  // namespace
}  // namespace mezzo
