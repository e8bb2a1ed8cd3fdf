#include "mezzo/core/dtype.h"

#include <limits>

#include <gtest/gtest.h>

#include "mezzo/core/error.h"

namespace mezzo {
namespace {

using enum DType;

TEST(DType, ListsForMessagesComeFromTheTable) {
  EXPECT_EQ(lower_dtypes(), "bf16 or f16");
  EXPECT_EQ(lower_dtypes("and"), "bf16 and f16");
  EXPECT_EQ(trainable_dtypes(), "f32, bf16 or f16");
  EXPECT_EQ(trainable_dtypes("and"), "f32, bf16 and f16");
}

TEST(DType, NamesParseBack) {
  for (const DType dtype : kAllDTypes) {
    EXPECT_EQ(parse_dtype(name_of(dtype)), dtype);
    EXPECT_EQ(concat(dtype), name_of(dtype));
  }
  EXPECT_EQ(parse_dtype("half"), kF16);
  EXPECT_EQ(parse_dtype("bfloat16"), kBf16);
  EXPECT_EQ(parse_dtype("float"), kF32);
  EXPECT_EQ(parse_dtype("double"), kF64);
  for (const char* wrong : {"", "f8", "fp8", "F32", "f32 ", "?"})
    EXPECT_FALSE(parse_dtype(wrong)) << wrong;
}

// The whole table; rows and columns in the order of kAllDTypes.
TEST(DType, Promotes) {
  constexpr DType kExpected[10][10] = {
      {kF32, kF32, kF32, kF32, kF32, kF64, kF32, kF32, kF32, kF32},
      {kF32, kBf16, kF32, kF32, kF32, kF64, kBf16, kBf16, kBf16, kBf16},
      {kF32, kF32, kF16, kF32, kF32, kF64, kF16, kF16, kF16, kF16},
      {kF32, kF32, kF32, kE4m3, kF32, kF64, kE4m3, kE4m3, kE4m3, kE4m3},
      {kF32, kF32, kF32, kF32, kE5m2, kF64, kE5m2, kE5m2, kE5m2, kE5m2},
      {kF64, kF64, kF64, kF64, kF64, kF64, kF64, kF64, kF64, kF64},
      {kF32, kBf16, kF16, kE4m3, kE5m2, kF64, kI64, kI64, kI64, kI64},
      {kF32, kBf16, kF16, kE4m3, kE5m2, kF64, kI64, kI32, kI32, kI32},
      {kF32, kBf16, kF16, kE4m3, kE5m2, kF64, kI64, kI32, kU8, kU8},
      {kF32, kBf16, kF16, kE4m3, kE5m2, kF64, kI64, kI32, kU8, kBool},
  };
  for (std::size_t i = 0; i < 10; ++i) {
    for (std::size_t j = 0; j < 10; ++j) {
      EXPECT_EQ(promote(kAllDTypes[i], kAllDTypes[j]), kExpected[i][j])
          << name_of(kAllDTypes[i]) << " with " << name_of(kAllDTypes[j]);
    }
  }
}

TEST(DType, PromotionIsALattice) {
  for (const DType a : kAllDTypes) {
    EXPECT_EQ(promote(a, a), a);
    for (const DType b : kAllDTypes) {
      EXPECT_EQ(promote(a, b), promote(b, a));
      EXPECT_EQ(promote(a, promote(a, b)), promote(a, b));
      for (const DType c : kAllDTypes) {
        // bf16 and f16 meet in f32, so with integers only the order of floats can matter.
        EXPECT_EQ(promote(promote(a, b), c), promote(a, promote(b, c)));
      }
    }
  }
}

TEST(DType, SizesAndKindsAgreeWithTheCppTypes) {
  for (const DType dtype : kAllDTypes) {
    visit_dtype(dtype, [dtype]<class T>() {
      EXPECT_EQ(kDTypeOf<T>, dtype);
      EXPECT_EQ(size_of(dtype), sizeof(T)) << name_of(dtype);
    });
  }
  EXPECT_TRUE(is_floating(kBf16) && is_floating(kF64) && !is_floating(kI64) && !is_floating(kBool));
  EXPECT_TRUE(is_lower(kBf16) && is_lower(kF16) && !is_lower(kF32) && !is_lower(kU8));
}

TEST(DType, LimitsAreThoseOfTheTypes) {
  EXPECT_EQ(max_of(kF16), static_cast<float>(Float16::from_bits(0x7bff)));
  EXPECT_EQ(max_of(kBf16), static_cast<float>(BFloat16::from_bits(0x7f7f)));
  EXPECT_EQ(max_of(kF32), std::numeric_limits<float>::max());
  EXPECT_EQ(epsilon_of(kF16), static_cast<float>(Float16::from_bits(0x3c01)) - 1);
  EXPECT_EQ(epsilon_of(kBf16), static_cast<float>(BFloat16::from_bits(0x3f81)) - 1);
  EXPECT_EQ(epsilon_of(kF32), std::numeric_limits<float>::epsilon());
  EXPECT_EQ(epsilon_of(kI32), 0);
}

}  // namespace
}  // namespace mezzo
