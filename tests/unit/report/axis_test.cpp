#include "mezzo/report/axis.h"

#include <cmath>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace mezzo::report {
namespace {

using testing::ElementsAre;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

std::vector<std::string> texts_of(const Axis& axis, int count = 5) {
  std::vector<std::string> texts;
  for (const Tick& tick : axis.ticks(count)) texts.push_back(tick.text);
  return texts;
}

TEST(Axis, PlacesNumbersInProportion) {
  const Axis linear(AxisKind::kLinear, 0, 10, 0, 106);
  EXPECT_NEAR(linear.place(0), 3, 1e-9);  // 3 % on either side
  EXPECT_NEAR(linear.place(10), 103, 1e-9);
  EXPECT_NEAR(linear.place(5), 53, 1e-9);
  const Axis down(AxisKind::kLog2, 1, 1024, 106, 0);
  EXPECT_NEAR(down.place(1), 103, 1e-9);
  EXPECT_NEAR(down.place(32), 53, 1e-9);
}

TEST(Axis, TicksAreRound) {
  EXPECT_THAT(texts_of(Axis(AxisKind::kLinear, 0, 10, 0, 1)),
              ElementsAre("0", "2", "4", "6", "8", "10"));
  EXPECT_THAT(texts_of(Axis(AxisKind::kLinear, 0.001, 0.0022, 0, 1), 4),
              ElementsAre("0.0010", "0.0015", "0.0020"));
  EXPECT_THAT(texts_of(Axis(AxisKind::kLinear, -1, 1, 0, 1), 4),
              ElementsAre("-1.0", "-0.5", "0.0", "0.5", "1.0"));
  EXPECT_THAT(texts_of(Axis(AxisKind::kLog10, 1e-6, 1, 0, 1)),
              ElementsAre("1e-06", "0.0001", "0.01", "1"));
  EXPECT_THAT(texts_of(Axis(AxisKind::kLog10, 0.1, 1, 0, 1)),
              ElementsAre("0.1", "0.2", "0.5", "1"));
  EXPECT_THAT(texts_of(Axis(AxisKind::kLog2, 1024, 65536, 0, 1), 3),
              ElementsAre("2¹⁰", "2¹³", "2¹⁶"));
}

TEST(Axis, WhatIsCountedHasWholeTicks) {
  std::vector<std::string> texts;
  for (const Tick& tick : Axis(AxisKind::kLinear, 1, 2, 0, 1).ticks(8, 1)) {
    texts.push_back(tick.text);
  }
  EXPECT_THAT(texts, ElementsAre("1", "2"));
  EXPECT_EQ(Axis(AxisKind::kLinear, 1, 1, 0, 1).ticks(8, 1).size(), 1U);
}

TEST(Axis, OneNumberLiesInTheMiddleAmongRoundOnes) {
  const Axis axis(AxisKind::kLinear, 80, 80, 0, 100);
  EXPECT_NEAR(axis.place(80), 50, 1e-9);
  EXPECT_THAT(texts_of(axis), ElementsAre("76", "78", "80", "82", "84"));
  // Two ticks that only rounding distinguishes are one.
  EXPECT_THAT(texts_of(Axis(AxisKind::kLinear, 80, 80 + 1e-9, 0, 100)),
              ElementsAre("76", "78", "80", "82", "84"));
}

TEST(Axis, SmallNumbersAreToldApart) {
  EXPECT_THAT(texts_of(Axis(AxisKind::kLinear, 1e-15, 3e-15, 0, 100)),
              ElementsAre("1e-15", "1.5e-15", "2e-15", "2.5e-15", "3e-15"));
}

// Expects that every tick is between 10 and 20, and that there are not many.
void expect_ticks_in_place(AxisKind kind, double low, double high) {
  const Axis axis(kind, low, high, 10, 20);
  const auto ticks = axis.ticks();
  EXPECT_LE(ticks.size(), 12U) << low << " " << high;
  for (const Tick& tick : ticks) {
    EXPECT_GE(axis.place(tick.value), 10 - 1e-6) << low << " " << high;
    EXPECT_LE(axis.place(tick.value), 20 + 1e-6) << low << " " << high;
  }
}

TEST(Axis, AnyEndsMakeARange) {
  for (const double low :
       {-kInfinity, -1e300, -5.0, 0.0, 1e-300, 1.0, 1 + 1e-15, 1e300, kInfinity, std::nan("")}) {
    for (const AxisKind kind : {AxisKind::kLinear, AxisKind::kLog10, AxisKind::kLog2}) {
      expect_ticks_in_place(kind, low, 1);
      expect_ticks_in_place(kind, low, low);
    }
  }
}

TEST(Axis, KnowsWhichNumbersHaveAPlace) {
  const Axis linear(AxisKind::kLinear, 0, 1, 0, 1);
  EXPECT_TRUE(linear.has(-3));
  EXPECT_FALSE(linear.has(kInfinity));
  const Axis log(AxisKind::kLog10, 1, 10, 0, 1);
  EXPECT_FALSE(log.has(0));
  EXPECT_FALSE(log.has(std::nan("")));
  EXPECT_TRUE(log.has(1e-30));
}

}  // namespace
}  // namespace mezzo::report
