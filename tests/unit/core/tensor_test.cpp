#include "mezzo/core/tensor.h"

#include <gtest/gtest.h>

namespace mezzo {
namespace {

TEST(Tensor, ChannelsLastIsAMemoryFormOfNchw) {
  const Tensor x = empty({2, 3, 4, 5}, DType::kF32, Format::kChannelsLast);
  EXPECT_EQ(x.strides(), Strides({60, 1, 15, 3}));
  EXPECT_TRUE(x.is_dense(Format::kChannelsLast));
  EXPECT_FALSE(x.is_dense());
  EXPECT_EQ(x.format(), Format::kChannelsLast);
}

TEST(Tensor, DimensionsOfSizeOneDoNotDecideTheFormat) {
  const Tensor x = empty({2, 3, 1, 1});
  EXPECT_TRUE(x.is_dense());
  EXPECT_TRUE(x.is_dense(Format::kChannelsLast));
}

TEST(Tensor, CopiesInLogicalOrderAcrossFormats) {
  const Tensor x = from_values({0.F, 1.F, 2.F, 3.F, 4.F, 5.F, 6.F, 7.F}, {1, 2, 2, 2});
  const Tensor y = empty({1, 2, 2, 2}, DType::kF16, Format::kChannelsLast);
  copy_elements(x, y);
  EXPECT_EQ(y.to_vector<float>(), x.to_vector<float>());
  EXPECT_EQ(static_cast<float>(y.data<Float16>()[1]), 4.0F);  // channel 1 of pixel 0
}

TEST(Tensor, WrongElementTypeNamesBothTypes) {
  const Tensor x = zeros({2});
  try {
    x.data<double>();
    FAIL();
  } catch (const ArgumentError& error) {
    EXPECT_STREQ(error.what(), "[tensor] elements are f32, asked for as f64. Use astype() first");
  }
}

TEST(Tensor, WritingCountsAsAChangeOfTheStorageAndItsViews) {
  const Tensor x = zeros({4});
  const Tensor view = alias(x, {2}, {1}, 2);
  const std::uint64_t before = view.version();
  fill(x, 3);
  EXPECT_GT(view.version(), before);
  EXPECT_EQ(view.to_vector<float>(), (std::vector<float>{3, 3}));
}

TEST(Tensor, EmptyShapesAndScalars) {
  EXPECT_EQ(zeros({0, 3}).to_vector<float>().size(), 0U);
  EXPECT_EQ(full({}, 2.5).item(), 2.5);
  EXPECT_THROW(zeros({2}).item(), ArgumentError);
  EXPECT_THROW(empty({-1}), ArgumentError);
}

}  // namespace
}  // namespace mezzo
