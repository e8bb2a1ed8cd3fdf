#include "mezzo/core/tensor.h"

#include <cmath>
#include <cstdint>
#include <limits>

#include <gtest/gtest.h>

#include "tests/unit/message_of.h"

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
    EXPECT_STREQ(error.what(),
                 "[tensor] elements are f32, but were requested as f64. Use astype() first");
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

TEST(Tensor, GradientsThatCannotBeItsAreRefused) {
  const Tensor x = zeros({2}, DType::kF16).set_requires_grad(true);
  const auto message_for = [](const Tensor& tensor, const Tensor& grad) {
    return message_of<ArgumentError>([&] { tensor.set_grad(grad); });
  };
  EXPECT_EQ(message_for(x, zeros({3})),
            "[set_grad] the gradient has shape [3], the tensor [2]. Pass one value per element");
  EXPECT_EQ(message_for(x, zeros({2}, DType::kI64)),
            "[set_grad] the gradient must be a float of 16 bits or more, it is i64. Use astype()");
  EXPECT_EQ(message_for(x, zeros({2}, DType::kE5m2)),
            "[set_grad] the gradient must be a float of 16 bits or more, it is e5m2. Use astype()");
  for (const DType dtype : {DType::kI64, DType::kE4m3}) {
    EXPECT_EQ(message_for(zeros({2}, dtype), zeros({2})),
              concat("[set_grad] only floats of 16 bits or more have gradients, this tensor is ",
                     dtype, ". Use astype() first"));
  }
  EXPECT_FALSE(x.grad().defined());
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kF64}) {
    x.set_grad(zeros({2}, dtype));
    EXPECT_EQ(x.grad().dtype(), dtype);
  }
  x.set_grad(Tensor());
  EXPECT_FALSE(x.grad().defined());
}

TEST(Tensor, OverlappingViewsAreCopiedAsIfReadBefore) {
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kI64}) {
    const Tensor x = arange(6, dtype);
    copy_elements(alias(x, {5}, {1}, 0), alias(x, {5}, {1}, 1));
    EXPECT_EQ(x.to_vector<double>(), (std::vector<double>{0, 0, 1, 2, 3, 4}));
    copy_elements(alias(x, {5}, {1}, 1), alias(x, {5}, {1}, 0));
    EXPECT_EQ(x.to_vector<double>(), (std::vector<double>{0, 1, 2, 3, 4, 4}));
    copy_elements(alias(x, {2, 2}, {1, 2}, 0), alias(x, {2, 2}, {2, 1}, 0));
    EXPECT_EQ(x.to_vector<double>(), (std::vector<double>{0, 2, 1, 3, 4, 4}));
  }
}

TEST(Tensor, MayOverlapWhereTheirElementsLieAmongEachOther) {
  const Tensor x = zeros({4, 4});
  const auto rows = [&](std::int64_t first, std::int64_t count) {
    return alias(x, {count, 4}, {4, 1}, 4 * first);
  };
  EXPECT_TRUE(may_overlap(rows(0, 2), rows(1, 2)));
  EXPECT_TRUE(may_overlap(x, alias(x, {4, 4}, {1, 4}, 0)));
  EXPECT_TRUE(may_overlap(alias(x, {3}, {-1}, 5), rows(1, 1)));
  EXPECT_FALSE(may_overlap(rows(0, 2), rows(2, 2)));
  EXPECT_FALSE(may_overlap(rows(0, 2), rows(0, 2)));
  EXPECT_FALSE(may_overlap(x, rows(1, 0)));
  EXPECT_FALSE(may_overlap(x, zeros({4, 4})));
}

TEST(Tensor, ViewsThatLeaveTheStorageAreRefused) {
  const Tensor x = zeros({2, 3});
  const Tensor column = alias(x, {2}, {3}, 2);
  EXPECT_EQ(message_of<ArgumentError>([&] { alias(column, {2}, {3}, 3); }),
            "[alias] a view of shape [2] and strides [3] from element 3 goes beyond the storage, "
            "which has 6 elements. Check them: the offset counts from the start of the storage");
  constexpr std::int64_t kFar = std::int64_t{1} << 62;
  const auto expect_refused = [&](const Shape& shape, const Strides& strides, std::int64_t offset) {
    EXPECT_THROW(alias(x, shape, strides, offset), ArgumentError) << concat(strides, offset);
  };
  expect_refused({-2}, {1}, 0);
  expect_refused({}, {}, 6);
  expect_refused({}, {}, -1);
  expect_refused({2}, {-1}, 0);
  expect_refused({5}, {kFar}, 0);
  expect_refused({2, 2}, {kFar, kFar}, 0);
  expect_refused({}, {}, std::numeric_limits<std::int64_t>::max());
  EXPECT_EQ(alias(x, {2, 3}, {-3, -1}, 5).numel(), 6);
  EXPECT_EQ(alias(x, {0, 3}, {3, 1}, 7).numel(), 0);
  EXPECT_EQ(alias(x, {9, 6}, {0, 1}, 0).numel(), 54);
}

TEST(Tensor, ViewsHaveAStrideForEachAxis) {
  const Tensor x = zeros({2, 3});
  EXPECT_EQ(message_of<ArgumentError>([&] {
              alias(x, {2, 3}, {3}, 0);
            }),
            "[alias] the shape [2, 3] and the strides [3] must have one entry for each axis. Give "
            "both the same rank");
  EXPECT_THROW(alias(x, {6}, {3, 1}, 0), ArgumentError);
  EXPECT_THROW(alias(x, {}, {1}, 0), ArgumentError);
}

TEST(Tensor, AnUndefinedOneIsRefusedByWhateverAsksOfIt) {
  const Tensor none;
  const auto text = message_of<ArgumentError>([&] { none.is_unshared(); });
  EXPECT_EQ(text, "[tensor] an undefined tensor was used. Assign it first");
}

TEST(Tensor, BoolsComeBackAsTheyWere) {
  const std::vector<bool> values{true, false, true};
  const Tensor x = from_values({true, false, true}, {3});
  EXPECT_EQ(x.dtype(), DType::kBool);
  EXPECT_EQ(x.to_vector<bool>(), values);
  EXPECT_EQ(from_values({2.5F, 0.0F, -1.0F}, {3}).to_vector<bool>(), values);
  EXPECT_TRUE(zeros({0}).to_vector<bool>().empty());
}

TEST(Tensor, AxesThatAreNotThereAreRefused) {
  EXPECT_EQ(message_of<ArgumentError>([] {
              zeros({2, 3}).size(-3);
            }),
            "[size] axis out of range: -3 for a tensor of rank 2. Axes count from 0, or from -1, "
            "the last one, down");
}

TEST(Tensor, EmptyShapesAndScalars) {
  EXPECT_EQ(zeros({0, 3}).to_vector<float>().size(), 0U);
  EXPECT_EQ(full({}, 2.5).item(), 2.5);
  EXPECT_THROW(zeros({2}).item(), ArgumentError);
  EXPECT_THROW(empty({-1}), ArgumentError);
}

// Products of sizes that overflow 64 bits would wrap to something small, or to 0.
TEST(Tensor, MoreBytesThanCanBeCountedAreRefused) {
  constexpr std::int64_t kLarge = std::int64_t{1} << 32;
  for (const Shape& shape : {Shape{kLarge, kLarge}, Shape{kLarge, kLarge, 0},
                             Shape{kLarge / 2, kLarge, 2}, Shape{kLarge, kLarge / 8}}) {
    EXPECT_EQ(message_of<ArgumentError>([&] { empty(shape, DType::kF64); }),
              concat("[empty] f64", shape, " has more bytes than can be counted. Check the sizes"));
  }
  EXPECT_THROW(from_values(std::vector<float>(), {kLarge, kLarge}), ArgumentError);
  EXPECT_EQ(zeros({kLarge, 0}).numel(), 0);
}

// The value is above the middle of two 16-bit values by less than f32 can resolve. Rounded to f32
// first, it would be the middle, and would go to the even value below.
TEST(Tensor, F64Becomes16BitsInOneRounding) {
  const auto check = [](double value, DType dtype, double want) {
    EXPECT_EQ(full({1}, value, dtype).item(), want) << value;
    EXPECT_EQ(full({1}, -value, dtype).item(), -want) << value;
    const Tensor copy = empty({1}, dtype);
    copy_elements(full({1}, value, DType::kF64), copy);
    EXPECT_EQ(copy.item(), want) << value;
  };
  constexpr double kBit = 0x1p-40;
  check(1 + 0x1p-8 + kBit, DType::kBf16, 1 + 0x1p-7);
  check(1 + 0x1p-8, DType::kBf16, 1);
  check(1 + 3 * 0x1p-8 - kBit, DType::kBf16, 1 + 0x1p-7);
  check(1 + 0x1p-11 + kBit, DType::kF16, 1 + 0x1p-10);
  check(1 + 0x1p-11, DType::kF16, 1);
  check(1 + 3 * 0x1p-11 - kBit, DType::kF16, 1 + 0x1p-10);
  check(0x1p-25 * (1 + kBit), DType::kF16, 0x1p-24);
  check(0x1p-25, DType::kF16, 0);
  check(65520 * (1 - kBit), DType::kF16, 65504);
  check(INFINITY, DType::kF16, INFINITY);
  check(1e-300, DType::kF16, 0);
  EXPECT_TRUE(std::isnan(full({1}, NAN, DType::kBf16).item()));
  const Tensor beyond = empty({1}, DType::kBf16);
  copy_elements(full({1}, 1e300, DType::kF64), beyond);
  EXPECT_EQ(beyond.item(), INFINITY);
}

TEST(Tensor, IsNotFilledWithWhatDoesNotFit) {
  EXPECT_EQ(message_of<ArgumentError>([] { full({2}, 1e9, DType::kF16); }),
            "[fill] 1e+09 does not fit f16, whose largest value is 65504. Give a smaller one, or "
            "an infinity");
  for (const DType dtype : {DType::kF32, DType::kBf16, DType::kF16}) {
    for (const double sign : {-1.0, 1.0}) {
      EXPECT_EQ(full({1}, sign * max_of(dtype), dtype).item(), sign * max_of(dtype));
      EXPECT_EQ(full({1}, sign * INFINITY, dtype).item(), sign * INFINITY);
      EXPECT_THROW(full({1}, sign * 1e300, dtype), ArgumentError) << name_of(dtype);
    }
    EXPECT_TRUE(std::isnan(full({1}, NAN, dtype).item()));
  }
}

TEST(Tensor, FloatsThatDoNotFitBecomeTheNearestInteger) {
  constexpr double kInf = std::numeric_limits<double>::infinity();
  const Tensor x = from_values({-2.9, 2.9, 300.0, -1e30, kInf, std::nan("")}, {6});
  const auto converted = [&]<class T>(T /*of the type*/) {
    const Tensor copy = empty({6}, kDTypeOf<T>);
    copy_elements(x, copy);
    return copy.to_vector<T>();
  };
  using Limits = std::numeric_limits<std::int64_t>;
  EXPECT_EQ(converted(std::int64_t{}),
            (std::vector<std::int64_t>{-2, 2, 300, Limits::lowest(), Limits::max(), 0}));
  EXPECT_EQ(converted(std::uint8_t{}), (std::vector<std::uint8_t>{0, 2, 255, 0, 255, 0}));
  EXPECT_EQ(full({1}, 1e30, DType::kI32).item(), 2147483647);
}

// Integers that a double cannot represent either.
TEST(Tensor, I64Becomes16BitsInOneRounding) {
  constexpr std::int64_t kBig = std::int64_t{1} << 60;
  constexpr std::int64_t kHalfUnit = kBig >> 8;  // in bf16
  const auto rounded = [](std::int64_t value) {
    const Tensor copy = empty({1}, DType::kBf16);
    copy_elements(from_values({value}, {1}), copy);
    return copy.item();
  };
  constexpr auto kLow = static_cast<double>(kBig);
  constexpr auto kHigh = static_cast<double>(kBig + 2 * kHalfUnit);
  EXPECT_EQ(rounded(kBig + kHalfUnit), kLow);  // a tie
  EXPECT_EQ(rounded(kBig + kHalfUnit + 1), kHigh);
  EXPECT_EQ(rounded(kBig + kHalfUnit - 1), kLow);
  EXPECT_EQ(rounded(-kBig - kHalfUnit), -kLow);
  EXPECT_EQ(rounded(-kBig - kHalfUnit - 1), -kHigh);
  EXPECT_EQ(rounded(std::numeric_limits<std::int64_t>::max()), 0x1p63);
  EXPECT_EQ(rounded(std::numeric_limits<std::int64_t>::min()), -0x1p63);
}

}  // namespace
}  // namespace mezzo
