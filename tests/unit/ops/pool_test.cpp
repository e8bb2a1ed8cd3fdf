#include "mezzo/ops/pool.h"

#include <limits>

#include <gtest/gtest.h>

#include "mezzo/ops/arithmetic.h"
#include "mezzo/ops/cast.h"
#include "mezzo/ops/reduce.h"
#include "mezzo/ops/shape_ops.h"
#include "tests/unit/ops/support.h"

namespace mezzo {
namespace {

using test::Doubles;
using test::largest_difference;
using test::plain_copy;
using test::random_tensor;

constexpr DType kFloats[] = {DType::kF32, DType::kBf16, DType::kF16, DType::kF64};

Tensor image(std::initializer_list<float> pixels, const Shape& shape, DType dtype) {
  return from_values(pixels, shape).astype(dtype);
}

TEST(MaxPool, ANaNWins) {
  for (const DType dtype : kFloats) {
    const Tensor x = image({1, NAN, 9, 2, 3, 4, 5, 6}, {1, 1, 2, 4}, dtype);
    const Doubles y = max_pool2d(x).to_vector<double>();
    EXPECT_TRUE(std::isnan(y[0])) << mezzo::name_of(dtype);
    EXPECT_EQ(y[1], 9);
  }
}

TEST(MaxPool, PaddingNeverWins) {
  for (const DType dtype : kFloats) {
    const Tensor x = image({-3, -4, -5, -INFINITY}, {1, 1, 2, 2}, dtype).set_requires_grad(true);
    const Tensor y = max_pool2d(x, {.kernel = 2, .stride = 2, .padding = 1});
    EXPECT_EQ(y.to_vector<double>(), (Doubles{-3, -4, -5, -INFINITY}));
    sum(y.astype(DType::kF64) * 0.5).backward();
    EXPECT_EQ(x.grad().to_vector<double>(), Doubles(4, 0.5)) << mezzo::name_of(dtype);
  }
}

TEST(MaxPool, OfEqualPixelsTheFirstGetsTheGradient) {
  for (const DType dtype : kFloats) {
    const Tensor x = image({7, 7, 7, 7}, {1, 1, 2, 2}, dtype).set_requires_grad(true);
    sum(max_pool2d(x)).backward();
    EXPECT_EQ(x.grad().to_vector<double>(), (Doubles{1, 0, 0, 0}));
  }
}

TEST(MaxPool, GradientsOfOverlappingWindowsAreSummedInF32) {
  // Nine windows choose the middle pixel. 1 + 8 * 2^-9 is 1.015625 in bf16, but adding the small
  // values to 1 one by one in bf16 would lose them all.
  const Tensor x = zeros({1, 1, 5, 5}, DType::kBf16);
  x.mutable_data<BFloat16>()[12] = BFloat16(1.0F);
  const Tensor leaf = plain_copy(x).set_requires_grad(true);
  const Tensor grad = full({1, 1, 3, 3}, 0x1p-9, DType::kBf16);
  grad.mutable_data<BFloat16>()[0] = BFloat16(1.0F);
  max_pool2d(leaf, {.kernel = 3, .stride = 1}).backward(grad);
  EXPECT_EQ(leaf.grad().to_vector<double>()[12], 1.015625);
}

TEST(MaxPool, WindowsBeyond256PixelsAndOddChannels) {
  for (const DType dtype : kFloats) {
    const Tensor x = random_tensor({2, 19, 20, 21}, 1, dtype).set_requires_grad(true);
    const Tensor wide = plain_copy(x).astype(DType::kF64).set_requires_grad(true);
    const Pool2dOptions options{.kernel = {18, 17}, .stride = 1};
    const Tensor y = max_pool2d(x, options);
    EXPECT_EQ(largest_difference(y, max_pool2d(wide, options)), 0);
    sum(y).backward();
    sum(max_pool2d(wide, options)).backward();
    EXPECT_EQ(largest_difference(x.grad(), wide.grad()), 0) << mezzo::name_of(dtype);
  }
}

TEST(Pool, SameAndValid) {
  const Tensor x = random_tensor({1, 3, 7, 10}, 1);
  const auto shape = [&](const Padding2d& padding) {
    return max_pool2d(x, {.kernel = 3, .stride = 2, .padding = padding}).shape();
  };
  EXPECT_EQ(shape(Padding::kSame), Shape({1, 3, 4, 5}));
  EXPECT_EQ(shape(Padding::kValid), Shape({1, 3, 3, 4}));
  EXPECT_EQ(shape(1), Shape({1, 3, 4, 5}));
  EXPECT_EQ(max_pool2d(x, {.kernel = 3}).shape(), Shape({1, 3, 2, 3}));  // stride = kernel
}

TEST(AvgPool, PaddingCountsOnlyIfAsked) {
  const Tensor x = ones({1, 1, 2, 2});
  const Pool2dOptions padded{.kernel = 2, .stride = 2, .padding = 1};
  EXPECT_EQ(avg_pool2d(x, padded).to_vector<double>(), Doubles(4, 0.25));
  EXPECT_EQ(avg_pool2d(x, {.kernel = 2, .stride = 2, .padding = 1, .count_include_pad = false})
                .to_vector<double>(),
            Doubles(4, 1));
}

TEST(GlobalAvgPool, SumsDoNotOverflowF16) {
  const Tensor x = full({1, 17, 30, 30}, 200, DType::kF16);  // the sum is 180000
  const Tensor y = global_avg_pool(x);
  EXPECT_EQ(y.shape(), Shape({1, 17, 1, 1}));
  EXPECT_EQ(y.to_vector<double>(), Doubles(17, 200));
}

// A single running sum of all pixels would be off by 2.5 thousandths.
TEST(GlobalAvgPool, LargeImagesKeepTheirDigits) {
  constexpr std::int64_t kSide = 512;
  const float pixel = 0.1F;
  const Tensor x = full({1, 3, kSide, kSide}, pixel);
  const double bound = 2 * kSide * 0x1p-24 * pixel;  // for sums of rows, and of the rows
  for (const double mean : global_avg_pool(x).to_vector<double>()) EXPECT_NEAR(mean, pixel, bound);
}

TEST(GlobalAvgPool, GradientIsSpreadEvenly) {
  for (const DType dtype : kFloats) {
    const Tensor x = random_tensor({2, 3, 4, 2}, 1, dtype).set_requires_grad(true);
    sum(global_avg_pool(x)).backward();
    EXPECT_EQ(x.grad().to_vector<double>(), Doubles(48, 0.125));
  }
}

TEST(Pool, ReadsAnyLayoutAndThreadsAgree) {
  const Tensor x = permute(random_tensor({2, 9, 8, 33}, 1), {0, 3, 1, 2});
  const Pool2dOptions options{.kernel = 3, .stride = 2, .padding = 1};
  const Tensor most = max_pool2d(plain_copy(x), options);
  const Tensor mean = avg_pool2d(plain_copy(x), options);
  for (const int threads : {1, 2}) {
    const test::Threads guard(threads);
    EXPECT_EQ(largest_difference(max_pool2d(x, options), most), 0);
    EXPECT_EQ(largest_difference(avg_pool2d(x, options), mean), 0);
  }
}

}  // namespace
}  // namespace mezzo
