// The kernel of conv2d and conv2d_grad_input for few channels of the result, on every shape.
#include <cmath>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "mezzo/core/cpu.h"
#include "mezzo/kernels/cpu/conv2d_planar.h"
#include "mezzo/ops/conv2d_attrs.h"
#include "tests/unit/ops/conv_call.h"
#include "tests/unit/ops/support.h"

namespace mezzo {
namespace {

using test::ConvCall;

Support always(const KernelArgs& /*args*/) { return Support::yes(); }

struct PlanarCase {
  Shape x;  // [n, c, h, w]
  std::int64_t out_channels;
  Size2d kernel;
  Conv2dAttrs attrs{};

  Shape y() const {
    const Size2d size = attrs.window(kernel).output_size({x[2], x[3]}, "conv2d");
    return {x[0], out_channels, size.h, size.w};
  }
  Shape weight() const { return {out_channels, x[1], kernel.h, kernel.w}; }

  ConvCall forward(DType dtype, bool has_bias = true) const {
    return {"conv2d",
            always,
            kernels::conv::run_planar,
            test::random_tensor(x, 1, dtype),
            test::random_tensor(weight(), 2, dtype),
            has_bias ? test::random_tensor({out_channels}, 3, dtype) : Tensor(),
            y(),
            Attrs(attrs),
            x[1] * kernel.h * kernel.w + 1};
  }

  // Of the convolution of an image like x whose result has x's channels, by that image.
  ConvCall grad_input(DType dtype) const {
    const Shape image{x[0], out_channels, x[2], x[3]};
    const Shape grad{x[0], x[1], y()[2], y()[3]};
    return {"conv2d_grad_input",
            always,
            kernels::conv::run_planar_grad_input,
            test::random_tensor(grad, 1, dtype),
            test::random_tensor({x[1], out_channels, kernel.h, kernel.w}, 2, dtype),
            Tensor(),
            image,
            Attrs(Conv2dGradAttrs{attrs, {x[2], x[3]}}),
            x[1] * kernel.h * kernel.w};
  }
};

// Every number of channels of the result with few and many of the image, every kernel, on small
// images.
std::vector<PlanarCase> small_cases() {
  const Conv2dAttrs padded{.padding = {3, 2, 1, 3}};
  const Conv2dAttrs strided{.stride = 2, .padding = {3, 3, 3, 3}};
  const Conv2dAttrs wide{.stride = {1, 3}, .padding = {0, 3, 3, 2}, .dilation = {1, 2}};
  const Conv2dAttrs dilated{.stride = {3, 2}, .padding = {4, 4, 5, 4}, .dilation = 2};
  const Conv2dAttrs attrs[] = {padded, strided, wide, dilated};
  std::vector<PlanarCase> cases;
  for (const std::int64_t in : {1, 2, 3, 4, 7, 8, 9, 17}) {
    for (std::int64_t out = 1; out <= 8; ++out) {
      const std::size_t i = cases.size();
      const Size2d kernels[] = {{1, 1}, {3, 3}, {5, 5}, {7, 7}, {1, 7}, {4, 2}, {2, 3}};
      const auto height = static_cast<std::int64_t>(9 + i % 3);
      const auto width = static_cast<std::int64_t>(14 + i % 5);
      const std::int64_t n = i % 5 == 0 ? 17 : i % 2 == 0 ? 2 : 1;
      cases.push_back({{n, in, height, width}, out, kernels[i % 7], attrs[i % 4]});
    }
  }
  return cases;
}

// A single pixel; rows longer than a chunk, and several of its rows; more padding than kernel, at
// both ends; columns that no output reads; more columns of a kernel than two vectors have numbers.
std::vector<PlanarCase> odd_cases() {
  return {
      {{1, 1, 1, 1}, 1, {1, 1}},
      {{17, 3, 1, 1}, 5, {3, 3}, {.padding = {1, 1, 1, 1}}},
      {{2, 6, 1, 40}, 8, {1, 5}, {.padding = {0, 0, 2, 2}}},
      {{1, 3, 33, 47}, 8, {3, 3}, {.padding = {1, 1, 1, 1}}},
      {{2, 3, 33, 47}, 7, {7, 7}, {.stride = 2, .padding = {3, 3, 3, 3}}},
      {{5, 1, 28, 28}, 6, {5, 5}, {.padding = {2, 2, 2, 2}}},
      {{1, 1, 5, 1100}, 2, {3, 3}},
      {{2, 40, 9, 7}, 3, {3, 3}, {.padding = {1, 1, 1, 1}}},
      {{1, 131, 20, 41}, 2, {3, 3}},
      {{2, 1, 16, 17}, 4, {2, 2}, {.stride = 5}},
      {{1, 5, 3, 3}, 6, {5, 5}, {.padding = {4, 4, 4, 4}}},
      {{1, 2, 20, 30}, 3, {2, 2}, {.padding = {5, 4, 3, 5}}},
      {{2, 2, 24, 25}, 1, {3, 3}, {.padding = {2, 2, 2, 2}, .dilation = 2}},
      {{1, 2, 3, 60}, 2, {2, 45}},
  };
}

std::vector<PlanarCase> all_cases() {
  std::vector<PlanarCase> cases = small_cases();
  for (const PlanarCase& c : odd_cases()) cases.push_back(c);
  return cases;
}

// Gradients at other strides are left to other kernels.
bool has_gradient(const PlanarCase& c) { return c.attrs.stride == Size2d(1); }

TEST(ConvPlanar, IsThePlainSum) {
  for (const DType dtype : test::kVectorDTypes) {
    for (const PlanarCase& c : all_cases()) test::check_call(c.forward(dtype), dtype);
  }
}

TEST(ConvPlanar, TheImagesGradientIsThePlainSum) {
  for (const DType dtype : test::kVectorDTypes) {
    for (const PlanarCase& c : all_cases()) {
      if (has_gradient(c)) test::check_call(c.grad_input(dtype), dtype);
    }
  }
}

TEST(ConvPlanar, WithoutABiasSumsBeginWithZero) {
  test::check_call(PlanarCase{{2, 9, 12, 20}, 5, {3, 3}}.forward(DType::kF32, false), DType::kF32);
}

TEST(ConvPlanar, IsTheSameWithEveryNumberOfThreads) {
  for (const PlanarCase& c : odd_cases()) {
    const auto with_threads = [&](int threads) {
      const test::Threads guard(threads);
      return c.forward(DType::kBf16).result_of(DType::kBf16).to_vector<float>();
    };
    const std::vector<float> expected = with_threads(1);
    EXPECT_EQ(with_threads(2), expected) << concat(c.x);
    EXPECT_EQ(with_threads(3), expected) << concat(c.x);
  }
}

TEST(ConvPlanar, ReadsAnyLayout) {
  for (const DType dtype : test::kVectorDTypes) {
    const PlanarCase c{{2, 3, 6, 20}, 6, {3, 3}};
    ConvCall call = c.forward(dtype);
    const std::vector<float> expected = call.result_of(dtype).to_vector<float>();
    for (Tensor* operand : {&call.a, &call.b}) {
      const Tensor last = empty(operand->shape(), dtype, Format::kChannelsLast);
      copy_elements(*operand, last);
      *operand = last;
    }
    EXPECT_EQ(call.result_of(dtype).to_vector<float>(), expected);
  }
}

// No sum meets a number that it should not: its neighbours beside the image and the kernel, and
// what memory held before.
TEST(ConvPlanar, ANanReachesJustTheSumsThatMeetIt) {
  for (const PlanarCase& c : all_cases()) {
    ConvCall call = c.forward(DType::kF32);
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
      const ConvCall call = c.forward(dtype);
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
  if (!cpu_features().avx2) GTEST_SKIP() << "needs AVX2";
  const auto taken = [](const PlanarCase& c, DType dtype) {
    const ConvCall call = c.forward(dtype);
    Tensor out = empty(call.result, dtype, Format::kChannelsLast);
    const auto inputs = call.inputs();
    return static_cast<bool>(kernels::conv::supports_planar({inputs, {&out, 1}, call.attrs}));
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
