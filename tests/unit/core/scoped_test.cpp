#include "mezzo/core/scoped.h"

#include <stdexcept>
#include <string>

#include <gtest/gtest.h>

#include "mezzo/core/math.h"

namespace mezzo {
namespace {

TEST(Scoped, RestoresInTheOppositeOrder) {
  std::string place = "first";
  {
    const Scoped<std::string> outer(place, "second");
    EXPECT_EQ(place, "second");
    EXPECT_EQ(outer.previous(), "first");
    {
      const Scoped<std::string> inner(place, "third");
      EXPECT_EQ(place, "third");
    }
    EXPECT_EQ(place, "second");
  }
  EXPECT_EQ(place, "first");
}

TEST(Scoped, RestoresAfterAnException) {
  int place = 1;
  try {
    const Scoped<int> scope(place, 2);
    throw std::runtime_error("out of luck");
  } catch (const std::runtime_error&) {
  }
  EXPECT_EQ(place, 1);
}

TEST(Math, DividesUpAndRoundsUp) {
  EXPECT_EQ(ceil_div(0, 4), 0);
  EXPECT_EQ(ceil_div(1, 4), 1);
  EXPECT_EQ(ceil_div(4, 4), 1);
  EXPECT_EQ(ceil_div(5, 4), 2);
  EXPECT_EQ(round_up(5, 4), 8);
  EXPECT_EQ(round_up(8, 4), 8);
  static_assert(ceil_div(std::int64_t{1} << 40, 3) == 366503875926);
  EXPECT_LT(round_up(~std::size_t{0}, std::size_t{64}), ~std::size_t{0}) << "there is none";
}

}  // namespace
}  // namespace mezzo
