#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mezzo/amp/autocast.h"
#include "mezzo/autograd/engine.h"
#include "mezzo/ops/arithmetic.h"
#include "mezzo/ops/conv2d.h"
#include "mezzo/ops/conv_transpose2d.h"
#include "mezzo/ops/reduce.h"
#include "mezzo/ops/shape_ops.h"
#include "tests/unit/message_of.h"
#include "tests/unit/ops/support.h"

namespace mezzo {
namespace {

using test::Doubles;
using test::largest_difference;
using test::parameter;
using test::random_tensor;
using test::sum_tolerance;
using testing::ElementsAre;
using testing::HasSubstr;

TEST(ConvTranspose2d, AKnownResult) {
  const Tensor x = from_values({1.0F, 2.0F, 3.0F, 4.0F}, {1, 1, 2, 2});
  const Tensor weight = from_values({1.0F, 10.0F, 100.0F, 1000.0F}, {1, 1, 2, 2});
  const Tensor bias = from_values({0.5F}, {1});
  EXPECT_THAT(conv_transpose2d(x, weight).to_vector<double>(),
              ElementsAre(1, 12, 20, 103, 1234, 2040, 300, 3400, 4000));
  EXPECT_THAT(
      conv_transpose2d(x, weight, bias, {.padding = Padding2d(1, 0, 0, 1)}).to_vector<double>(),
      ElementsAre(103.5, 1234.5, 300.5, 3400.5));
  EXPECT_THAT(
      conv_transpose2d(x, weight, bias, {.stride = {1, 3}, .output_padding = {0, 2}, .groups = 1})
          .to_vector<double>(),
      ElementsAre(1.5, 10.5, 0.5, 2.5, 20.5, 0.5, 0.5, 103.5, 1030.5, 0.5, 204.5, 2040.5, 0.5, 0.5,
                  300.5, 3000.5, 0.5, 400.5, 4000.5, 0.5, 0.5));
}

TEST(ConvTranspose2d, IsTheGradientOfConv2dByItsInput) {
  struct Case {
    Shape image;
    Shape weight;
    Conv2dOptions conv;
    Size2d output_padding;
  };
  const Case cases[] = {
      {{2, 3, 9, 8}, {4, 3, 3, 3}, {.stride = 2, .padding = 1}, {0, 1}},
      {{2, 6, 7, 7}, {4, 3, 3, 2}, {.padding = {1, 0}, .dilation = 2, .groups = 2}, 0},
      {{2, 32, 8, 8}, {48, 32, 3, 3}, {.padding = 1}, 0},
      {{3, 16, 8, 8}, {64, 16, 2, 2}, {.stride = 2}, 0},
  };
  for (const Case& c : cases) {
    const Tensor image = parameter(c.image, 1);
    const Tensor weight = random_tensor(c.weight, 2);
    const Tensor y = conv2d(image, weight, {}, c.conv);
    const Tensor grad = random_tensor(y.shape(), 3);
    y.backward(grad);
    const Tensor got = conv_transpose2d(grad, weight, {},
                                        {.stride = c.conv.stride,
                                         .padding = c.conv.padding,
                                         .output_padding = c.output_padding,
                                         .dilation = c.conv.dilation,
                                         .groups = c.conv.groups});
    EXPECT_EQ(got.shape(), c.image);
    EXPECT_TRUE(got.is_dense(Format::kChannelsLast));
    EXPECT_EQ(largest_difference(got, image.grad()), 0);
  }
}

// 257 lies between two bf16 values: rounded before the bias is added, it would be 256.
TEST(ConvTranspose2d, TheBiasIsAddedBeforeRounding) {
  const Tensor x = from_values({128.0F, 129.0F}, {1, 2, 1, 1}).astype(DType::kBf16);
  const Tensor weight = ones({2, 3, 1, 1}, DType::kBf16);
  const Tensor y = conv_transpose2d(x, weight, from_values({-257.0F, 0.5F, 1.0F}, {3}));
  EXPECT_EQ(y.dtype(), DType::kBf16);
  EXPECT_THAT(y.to_vector<double>(), ElementsAre(0, 258, 258));
}

// Two samples at a time, and a remainder of one.
TEST(ConvTranspose2d, LargeBatchesGetTheirBiasInParts) {
  const Tensor x = reshape(arange(5 * 320 * 320) * 0x1p-12, {5, 1, 320, 320});
  const Tensor bias = from_values({0.5F, -3.0F, 0.0F, 1.0F}, {4});
  for (const DType dtype : {DType::kBf16, DType::kF16}) {
    const Tensor narrow = x.astype(dtype);
    const Tensor y = conv_transpose2d(narrow, ones({1, 4, 1, 1}, dtype), bias);
    const Tensor want = narrow.astype(DType::kF32) + reshape(bias, {4, 1, 1});
    EXPECT_EQ(largest_difference(y, want.astype(dtype)), 0) << mezzo::name_of(dtype);
  }
}

TEST(ConvTranspose2d, SamePaddingMultipliesTheSizeByTheStride) {
  for (const std::int64_t kernel : {1, 2, 3, 5}) {
    for (const std::int64_t stride : {1, 2, 3}) {
      const Tensor y =
          conv_transpose2d(random_tensor({1, 2, 4, 5}, 1), random_tensor({2, 3, kernel, 2}, 2), {},
                           {.stride = stride, .padding = Padding::kSame});
      EXPECT_EQ(y.shape(), Shape({1, 3, 4 * stride, 5 * stride})) << kernel << " " << stride;
    }
  }
}

TEST(ConvTranspose2d, SamePaddingLeavesNoRoomForMoreBehindASmallKernel) {
  const Tensor x = random_tensor({1, 2, 4, 5}, 1);
  const auto result = [&](std::int64_t kernel) {
    return conv_transpose2d(x, random_tensor({2, 3, kernel, kernel}, 2), {},
                            {.stride = 2, .padding = Padding::kSame, .output_padding = 1});
  };
  EXPECT_EQ(result(2).shape(), Shape({1, 3, 9, 11}));
  EXPECT_THAT(message_of<ArgumentError>([&] { result(1); }),
              HasSubstr("the kernel covers [1, 1] pixels, to which Padding::kSame adds "
                        "[1, 1] to reach the stride [2, 2]: there is no room for an "
                        "output_padding of [1, 1]"));
}

TEST(ConvTranspose2d, GradientsAreThoseOfDouble) {
  const ConvTranspose2dOptions options{.stride = 2, .padding = 1, .output_padding = 1, .groups = 2};
  const auto gradients = [&](DType dtype, bool create_graph) {
    const auto leaf = [&](const Shape& shape, std::uint64_t seed) {
      return random_tensor(shape, seed).astype(dtype).detach().set_requires_grad(true);
    };
    const std::vector<Tensor> leaves{leaf({3, 4, 5, 6}, 1), leaf({4, 3, 3, 3}, 2), leaf({6}, 3)};
    const Tensor y = conv_transpose2d(leaves[0], leaves[1], leaves[2], options);
    const Tensor loss = sum(y * random_tensor(y.shape(), 4).astype(dtype));
    return grad({&loss, 1}, leaves, {}, {.create_graph = create_graph});
  };
  const std::vector<Tensor> want = gradients(DType::kF64, false);
  for (const bool create_graph : {false, true}) {
    const std::vector<Tensor> got = gradients(DType::kF32, create_graph);
    for (std::size_t k = 0; k < want.size(); ++k) {
      EXPECT_LE(largest_difference(got[k], want[k]), sum_tolerance(3 * 10 * 12)) << k;
    }
  }
}

// As for conv2d, since the sums are f32 anyway.
TEST(ConvTranspose2d, WeightGradientsStayF32InARegion) {
  for (const DType dtype : {DType::kBf16, DType::kF16}) {
    const Tensor x = random_tensor({2, 4, 5, 5}, 1);
    const Tensor weight = parameter({4, 3, 2, 2}, 2);
    const Tensor bias = parameter({3}, 3);
    Tensor y;
    {
      const amp::Autocast region(dtype);
      y = conv_transpose2d(x, weight, bias, {.stride = 2});
    }
    EXPECT_EQ(y.dtype(), dtype);
    y.backward(ones(y.shape(), dtype));
    EXPECT_EQ(weight.grad().dtype(), DType::kF32);
    EXPECT_EQ(bias.grad().dtype(), DType::kF32);
    // Sums of 50 16-bit values, some of which 16 bits cannot represent.
    const Tensor wide = x.astype(dtype).astype(DType::kF32);
    const Tensor want = expand(reshape(sum(wide, {0, 2, 3}), {4, 1, 1, 1}), {4, 3, 2, 2});
    EXPECT_LE(largest_difference(weight.grad(), want), sum_tolerance(50)) << mezzo::name_of(dtype);
  }
}

TEST(ConvTranspose2d, SaysWhatDoesNotFit) {
  const Tensor x = ones({1, 2, 3, 3});
  const Tensor weight = ones({2, 4, 3, 3});
  const auto refusal = [&](const ConvTranspose2dOptions& options) {
    return message_of<ArgumentError>([&] { conv_transpose2d(x, weight, {}, options); });
  };
  EXPECT_THAT(refusal({.padding = 3}),
              HasSubstr("the padding [3, 3, 3, 3] leaves nothing of the result"));
  EXPECT_THAT(refusal({.stride = 2, .output_padding = 2}),
              HasSubstr("output_padding must be smaller than the stride [2, 2], it is [2, 2]"));
  EXPECT_THAT(refusal({.stride = std::int64_t{1} << 40}), HasSubstr("is larger than"));
  const Tensor long_image = expand(zeros({1, 2, 1, 1}), {1, 2, kMostPixels + 1, 1});
  EXPECT_THAT(
      message_of<ArgumentError>([&] { conv_transpose2d(long_image, weight); }),
      HasSubstr("x has images of more than 2147483647 pixels on a side: [1, 2, 2147483648"));
}

}  // namespace
}  // namespace mezzo
