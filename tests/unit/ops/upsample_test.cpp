#include "mezzo/ops/upsample.h"

#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mezzo/core/random.h"
#include "mezzo/ops/arithmetic.h"
#include "mezzo/ops/cast.h"
#include "mezzo/ops/reduce.h"
#include "mezzo/ops/shape_ops.h"
#include "tests/unit/message_of.h"
#include "tests/unit/threads.h"

namespace mezzo {
namespace {

using testing::ElementsAre;

TEST(UpsampleNearest, RepeatsPixels) {
  const Tensor y = upsample_nearest2d(reshape(arange(4), {1, 2, 1, 2}), {2, 3});
  EXPECT_EQ(y.shape(), (Shape{1, 2, 2, 6}));
  EXPECT_TRUE(y.is_dense(Format::kChannelsLast));
  EXPECT_THAT(y.to_vector<double>(), ElementsAre(0, 0, 0, 1, 1, 1, 0, 0, 0, 1, 1, 1,  //
                                                 2, 2, 2, 3, 3, 3, 2, 2, 2, 3, 3, 3));
}

TEST(UpsampleNearest, GradientAddsUpWhatWasRepeated) {
  const Tensor x = zeros({1, 1, 1, 2}).set_requires_grad(true);
  sum(upsample_nearest2d(x, 2) * reshape(arange(8), {1, 1, 2, 4})).backward();
  EXPECT_THAT(x.grad().to_vector<double>(), ElementsAre(0 + 1 + 4 + 5, 2 + 3 + 6 + 7));
}

// A bf16 sum would stop at 256.
TEST(UpsampleNearest, SumsOfGradientsAreF32) {
  const Tensor x = zeros({1, 3, 2, 2}, DType::kBf16).set_requires_grad(true);
  const Tensor y = upsample_nearest2d(x, 20);
  y.backward(ones(y.shape(), DType::kBf16));
  EXPECT_THAT(x.grad().to_vector<double>(), testing::Each(400));
}

using Doubles = std::vector<double>;

struct Interpolated {
  UpsampleBilinear2dOptions options;
  Doubles y;
  Doubles grad;  // with the upstream gradients 0, 1, 2, ...
};

// Results of PyTorch 1.13 for 2 rows of 3 pixels, in f64.
std::vector<Interpolated> interpolated_by_pytorch() {
  return {
      {{.scale = 2},
       {1,    0.25,  -1.25, -0.5,  2.5,   4,    0.75, 0.375, -0.375, 0.125, 1.875, 2.75,
        0.25, 0.625, 1.375, 1.375, 0.625, 0.25, 0,    0.75,  2.25,   2,     0,     -1},
       {17.5, 25, 32.5, 59.5, 67, 74.5}},
      {{.size = Size2d(4, 6), .align_corners = true},
       {1,        -0.2,    -1.4,    -0.8,    1.6,     4,       2.0 / 3, 0.8 / 3,
        -0.4 / 3, 0.2,     3.8 / 3, 7.0 / 3, 1.0 / 3, 2.2 / 3, 3.4 / 3, 1.2,
        2.8 / 3,  2.0 / 3, 0,       1.2,     2.4,     2.2,     0.6,     -1},
       {16.4, 31.2, 30.4, 52.4, 79.2, 66.4}},
      {{.size = Size2d(3, 5)},
       {1, -0.2, -2, 1.6, 4, 0.5, 0.5, 0.5, 1.1, 1.5, 0, 1.2, 3, 0.6, -1},
       {4.9, 9.9, 12.7, 20.9, 27.9, 28.7}},
      {{.size = Size2d(3, 5), .align_corners = true},
       {1, -0.5, -2, 1, 4, 0.5, 0.5, 0.5, 1, 1.5, 0, 1.5, 3, 1, -1},
       {4.5, 11, 12, 19.5, 31, 27}},
      {{.size = Size2d(1, 2)}, {0.5, 1.25}, {0, 0.125, 0.375, 0, 0.125, 0.375}},
      {{.size = Size2d(1, 2), .align_corners = true}, {1, 4}, {0, 0, 1, 0, 0, 0}},
  };
}

// Computed in f32 from few terms, with sums up to 128, and rounded to the dtype once.
void expect_rounded(const Tensor& got, const Doubles& expected) {
  const DType dtype = got.dtype();
  const Doubles values = got.to_vector<double>();
  ASSERT_EQ(values.size(), expected.size());
  const double of_sums = 128 * epsilon_of(dtype == DType::kF64 ? DType::kF64 : DType::kF32);
  for (std::size_t i = 0; i < values.size(); ++i) {
    EXPECT_NEAR(values[i], expected[i], epsilon_of(dtype) / 2 * std::abs(expected[i]) + of_sums)
        << name_of(dtype) << " " << i;
  }
}

TEST(UpsampleNearest, RefusesMorePixelsThanCanBeCounted) {
  const auto error_of = [](const Shape& shape, Size2d scale) {
    return message_of<ArgumentError>([&] { upsample_nearest2d(zeros(shape), scale); });
  };
  const std::int64_t most = kMostPixels;
  EXPECT_EQ(error_of({1, 1, 4, 2}, {1, most}),
            "[upsample_nearest2d] images of size [4, 2] times [1, 2147483647] have more than "
            "2147483647 pixels on a side. Use a smaller scale");
  EXPECT_EQ(
      error_of({8, 1, 1, 1}, {most, most}),
      "[upsample_nearest2d] the result would be f32[8, 1, 2147483647, 2147483647], more bytes "
      "than can be counted. Make it of smaller tensors");
}

TEST(UpsampleBilinear, GivesTheNumbersOfPyTorch) {
  for (const Interpolated& expected : interpolated_by_pytorch()) {
    for (const DType dtype : {DType::kF64, DType::kF32, DType::kBf16, DType::kF16}) {
      Tensor x = from_values({1.0, -2.0, 4.0, 0.0, 3.0, -1.0}, {1, 1, 2, 3}).astype(dtype);
      x.set_requires_grad(true);
      const Tensor y = upsample_bilinear2d(x, expected.options);
      EXPECT_EQ(y.dtype(), dtype);
      EXPECT_TRUE(y.is_dense(Format::kChannelsLast));
      expect_rounded(y, expected.y);
      y.backward(reshape(arange(y.numel()), y.shape()).astype(dtype));
      expect_rounded(x.grad(), expected.grad);
    }
  }
}

// A bf16 sum would stop at 256.
TEST(UpsampleBilinear, SumsOfGradientsAreF32) {
  const Tensor x = zeros({1, 3, 2, 2}, DType::kBf16).set_requires_grad(true);
  const Tensor y = upsample_bilinear2d(x, {.scale = 20});
  y.backward(ones(y.shape(), DType::kBf16));
  EXPECT_THAT(x.grad().to_vector<double>(), testing::Each(400));
}

// A result at the position of a pixel gives the pixel's neighbours the weight 0, and 0 times
// infinity is NaN.
TEST(UpsampleBilinear, PixelsAtTheirPlaceStandAlone) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (const DType dtype : {DType::kF64, DType::kF32, DType::kBf16, DType::kF16}) {
    Tensor x = from_values({1.0F, kInfinity, 3.0F}, {1, 1, 1, 3}).astype(dtype);
    x.set_requires_grad(true);
    const Tensor y = upsample_bilinear2d(x, {.scale = 3});
    EXPECT_THAT(y.to_vector<float>(),
                ElementsAre(1, 1, kInfinity, kInfinity, kInfinity, kInfinity, kInfinity, 3, 3, 1, 1,
                            kInfinity, kInfinity, kInfinity, kInfinity, kInfinity, 3, 3, 1, 1,
                            kInfinity, kInfinity, kInfinity, kInfinity, kInfinity, 3, 3));
    y.backward(y.detach());
    EXPECT_THAT(x.grad().to_vector<float>(), ElementsAre(kInfinity, kInfinity, kInfinity));
  }
}

TEST(UpsampleBilinear, GivesTheSameBitsOnAnyNumberOfThreads) {
  for (const std::int64_t channels : {5, 33}) {
    Generator generator(7);
    const Tensor x = randn({2, channels, 40, 33}, generator).set_requires_grad(true);
    const Tensor grad = randn({2, channels, 61, 50}, generator);
    const auto results = [&](int threads) {
      const test::Threads guard(threads);
      x.clear_grad();
      const Tensor y = upsample_bilinear2d(x, {.size = Size2d(61, 50)});
      y.backward(grad);
      return std::pair(y.to_vector<float>(), x.grad().to_vector<float>());
    };
    const auto alone = results(1);
    for (const int threads : {2, 3, 7}) EXPECT_TRUE(results(threads) == alone) << threads;
  }
}

TEST(UpsampleBilinear, RefusesWhatDoesNotFit) {
  const Tensor x = zeros({1, 2, 3, 4});
  const auto error_of = [&](const UpsampleBilinear2dOptions& options) {
    return message_of<ArgumentError>([&] { upsample_bilinear2d(x, options); });
  };
  EXPECT_EQ(error_of({.scale = 2, .size = Size2d(7, 9)}),
            "[upsample_bilinear2d] there is a scale, [2, 2], and a size, [7, 9]. Leave one of them "
            "out");
  for (const Size2d scale : {Size2d(0, 1), Size2d(1, -2), Size2d(715827883, 1)}) {
    EXPECT_THAT(error_of({.scale = scale}),
                testing::HasSubstr("the scale must be whole numbers from 1"));
  }
  EXPECT_THAT(error_of({.size = Size2d(0, 3)}),
              testing::HasSubstr("the size of the result must be whole numbers from 1"));
  const auto error_of_shape = [](const Shape& shape) {
    return message_of<ArgumentError>([&] { upsample_bilinear2d(zeros(shape), {.scale = 2}); });
  };
  EXPECT_THAT(error_of_shape({3, 4}), testing::HasSubstr("x must have 4 dimensions"));
  EXPECT_THAT(error_of_shape({1, 2, 3, 0}), testing::HasSubstr("the images have size [3, 0]"));
}

}  // namespace
}  // namespace mezzo
