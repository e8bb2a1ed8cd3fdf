#include "mezzo/core/error.h"

#include <limits>

#include <gtest/gtest.h>

#include "mezzo/core/shape.h"

namespace mezzo {
namespace {

TEST(Concat, WritesEachPart) {
  EXPECT_EQ(concat("x is ", 3, ", ", -1.5, ", ", true, ' ', std::string("end")),
            "x is 3, -1.5, true end");
  EXPECT_EQ(concat(std::uint8_t{200}, ' ', std::int8_t{-5}), "200 -5") << "bytes are numbers";
  EXPECT_EQ(concat(-std::numeric_limits<double>::quiet_NaN()), "nan");
  EXPECT_EQ(concat(std::numeric_limits<std::uint64_t>::max()), "18446744073709551615");
  EXPECT_EQ(concat(std::numeric_limits<double>::lowest()), "-1.7976931348623157e+308");
  EXPECT_EQ(concat(std::numeric_limits<float>::infinity()), "inf");
  EXPECT_EQ(concat(Shape({2, 3}), Shape({})), "[2, 3][]");
  EXPECT_EQ(concat(), "");
}

TEST(Errors, NameTheOperationFirst) {
  try {
    fail("matmul", "inner dimensions differ: ", 3, " and ", 4);
  } catch (const ArgumentError& error) {
    EXPECT_STREQ(error.what(), "[matmul] inner dimensions differ: 3 and 4");
  }
  EXPECT_THROW(fail<UnsupportedError>("cast", "no"), UnsupportedError);
  EXPECT_THROW(fail<DeviceError>("cast", "no"), Error);
  EXPECT_THROW(fail<FileError>("idx", "no"), std::runtime_error);
}

// Only types to which a sentence can be added; others pass unchanged.
TEST(Errors, AreThrownAgainWithMore) {
  class Special : public ArgumentError {
   public:
    using ArgumentError::ArgumentError;
  };
  const auto again = []<class Type>(const Type& error) {
    try {
      try {
        throw error;
      } catch (...) {
        rethrow_with(". More");
      }
    } catch (const Type& thrown) {
      return std::string(thrown.what());
    }
    return std::string();
  };
  EXPECT_EQ(again(ArgumentError("[op] wrong")), "[op] wrong. More");
  EXPECT_EQ(again(UnsupportedError("[op] not here")), "[op] not here. More");
  EXPECT_EQ(again(FileError("[op] file")), "[op] file");
  EXPECT_EQ(again(Special("[op] special")), "[op] special");
  EXPECT_EQ(again(std::runtime_error("other")), "other");
}

TEST(Errors, CheckArgThrowsOnlyIfWrong) {
  EXPECT_NO_THROW(check_arg(true, "op", "fine"));
  EXPECT_THROW(check_arg(false, "op", "wrong"), ArgumentError);
}

}  // namespace
}  // namespace mezzo
