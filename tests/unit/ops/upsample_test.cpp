#include "mezzo/ops/upsample.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mezzo/ops/arithmetic.h"
#include "mezzo/ops/reduce.h"
#include "mezzo/ops/shape_ops.h"

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

}  // namespace
}  // namespace mezzo
