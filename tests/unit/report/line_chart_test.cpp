#include "mezzo/report/line_chart.h"

#include <cmath>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mezzo/core/error.h"
#include "tests/unit/report/markup.h"
#include "tests/unit/special_values.h"

namespace mezzo::report {
namespace {

using testing::HasSubstr;
using testing::Not;

Series line(std::size_t count) {
  Series series{.name = "a"};
  for (std::size_t i = 0; i < count; ++i) {
    series.points.push_back({static_cast<double>(i), 1 + std::sin(static_cast<double>(i))});
  }
  return series;
}

TEST(LineChart, DrawsEverySeriesAndNamesSeveral) {
  LineChart chart{.label = "loss", .x_label = "step", .series = {line(10)}};
  const std::string one = to_svg(chart);
  expect_sound(one);
  EXPECT_EQ(count_of_text(one, "class=\"line"), 1U);
  EXPECT_THAT(one, Not(HasSubstr("</svg>a <b>")));
  chart.series.push_back({.name = "b<i>", .points = {{0, 1}, {5, 2}}});
  const std::string two = to_svg(chart);
  expect_sound(two);
  EXPECT_THAT(two, HasSubstr("</svg>a <b>"));
  EXPECT_THAT(two, HasSubstr("</svg>b&lt;i&gt; <b>"));
}

TEST(LineChart, SeveralSeriesHaveALegend) {
  LineChart chart{.label = "loss", .x_label = "step"};
  for (int i = 0; i < 5; ++i) {
    chart.series.push_back(line(3));
    chart.series.back().name = "resnet20 O2/bf16";
  }
  const std::string svg = to_svg(chart);
  expect_sound(svg);
  EXPECT_EQ(count_of_text(svg, "<li>"), 5U);
  chart.series.resize(1);
  EXPECT_THAT(to_svg(chart), Not(HasSubstr("<li>")));
}

// Neither in colour nor without.
TEST(LineChart, NoTwoSeriesLookAlike) {
  LineChart chart{.label = "loss", .x_label = "step", .series = std::vector<Series>(13, line(3))};
  const std::string svg = to_svg(chart);
  expect_sound(svg);
  for (const char* look : {"c0 s0", "c1 s1", "c5 s0", "c0 s1", "c0 s2"}) {
    // In the drawing and in the legend.
    EXPECT_EQ(count_of_text(svg, concat("class=\"line ", look, "\"")), 2U) << look;
  }
}

TEST(LineChart, SaysInWordsWhatItShows) {
  LineChart chart{.label = "Loss",
                  .x_label = "step",
                  .series = {{.name = "a", .points = {{1, 2}, {2, 4}, {3, kNan}, {4, 1}, {5, 3}}}},
                  .marks = {{.x = 3, .title = "step 3 was skipped"}}};
  const std::string one = to_svg(chart);
  EXPECT_THAT(one,
              HasSubstr("role=\"img\">\n<title>Loss</title>\n<desc>a: from 2 at step 1 to 3 at "
                        "step 5; lowest 1 at step 4, highest 4 at step 2. 1 skipped step: step "
                        "3 was skipped.</desc>"));
  EXPECT_THAT(one, HasSubstr("<figcaption>last 3 · lowest 1 at step 4 · highest 4 at step 2 · "
                             "dashed: 1 skipped step</figcaption>"));
  chart.series.push_back({.name = "b", .points = {{1, 2}, {5, kNan}}});
  chart.series.push_back({.name = "c", .points = {{1, kNan}}});
  const std::string several = to_svg(chart);
  expect_sound(several);
  EXPECT_THAT(several, HasSubstr("b: from 2 at step 1 to 2 at step 1;"));
  EXPECT_THAT(several, HasSubstr("c: no value is finite."));
  EXPECT_THAT(several, HasSubstr("</svg>b <b>2</b></li>"));
  EXPECT_THAT(several, Not(HasSubstr("figcaption")));
}

// Those between others are hidden on narrow pages.
TEST(LineChart, FewTicksAreShownAtAnyWidth) {
  EXPECT_THAT(to_svg({.series = {line(2)}}), Not(HasSubstr("tick between")));
  EXPECT_THAT(to_svg({.series = {line(100)}}), HasSubstr("tick between"));
}

TEST(LineChart, VeryManyMarksStaySmall) {
  LineChart chart{.series = {line(10'000)}};
  for (int i = 0; i < 10'000; ++i) chart.marks.push_back({.x = 1.0 * i, .title = "skipped"});
  const std::string svg = to_svg(chart);
  expect_sound(svg);
  EXPECT_LT(svg.size(), 50'000U);
}

TEST(LineChart, WithoutPointsThereIsNoDrawing) {
  for (const LineChart& chart :
       {LineChart{}, LineChart{.series = {{.name = "a"}}},
        LineChart{.series = {{.name = "a", .points = {{1, kNan}}}}},
        LineChart{.y_axis = AxisKind::kLog2, .series = {{.name = "a", .points = {{1, 0}}}}}}) {
    const std::string html = to_svg(chart);
    EXPECT_THAT(html, HasSubstr("nothing to draw"));
    EXPECT_EQ(markup_fault(html), "");
  }
}

TEST(LineChart, PointsThatAreNotFiniteLeaveAGap) {
  Series series = line(10);
  series.points[4].y = kNan;
  series.points[5].y = std::numeric_limits<double>::infinity();
  const std::string svg = to_svg({.series = {series}});
  expect_sound(svg);
  EXPECT_EQ(count_of_text(svg, "class=\"line"), 2U);
}

TEST(LineChart, OnePointIsADot) {
  const std::string svg = to_svg({.series = {line(1)}});
  expect_sound(svg);
  EXPECT_EQ(count_of_text(svg, "class=\"dot"), 1U);
}

TEST(LineChart, LongSeriesAreAveragedBeforeABand) {
  const std::string svg = to_svg({.series = {line(100'000)}});
  expect_sound(svg);
  EXPECT_EQ(count_of_text(svg, "class=\"band"), 1U);
  EXPECT_LT(svg.size(), 30'000U);
  EXPECT_THAT(to_svg({.series = {line(300)}}), Not(HasSubstr("class=\"band")));
}

// Points that share a position are averaged over those that are finite.
TEST(LineChart, OneOfManyThatIsNotFiniteLeavesNoGap) {
  Series series = line(100'000);
  series.points[5'000].y = kNan;
  EXPECT_EQ(count_of_text(to_svg({.series = {series}}), "class=\"line"), 1U);
}

// For example a loss of 0, which has no logarithm.
TEST(LineChart, ABandThatEndsAtZeroHasAPlaceOnALogarithmicAxis) {
  Series series = line(100'000);
  for (std::size_t i = 0; i < series.points.size(); i += 10) series.points[i].y = 0;
  const std::string svg = to_svg({.y_axis = AxisKind::kLog10, .series = {series}});
  expect_sound(svg);
  EXPECT_EQ(count_of_text(svg, "class=\"band"), 1U);
  EXPECT_THAT(svg, Not(HasSubstr("inf")));
}

TEST(LineChart, StepsHoldAValueUntilTheNextPoint) {
  const std::vector<Series> series{{.name = "a", .points = {{0, 1}, {10, 2}, {20, 3}}}};
  const std::size_t plain = count_of_text(to_svg({.series = series}), "L");
  EXPECT_EQ(count_of_text(to_svg({.is_stepped = true, .series = series}), "L"), plain + 2);
}

TEST(LineChart, TheAxisReachesToTheLastMark) {
  const LineChart chart{.series = {line(1000)}, .marks = {{.x = 2000, .title = "later"}}};
  EXPECT_THAT(to_svg(chart), HasSubstr(">2000<"));
}

TEST(LineChart, MarksAreDrawnOncePerPlace) {
  LineChart chart{.series = {line(1000)}};
  for (int i = 0; i < 100; ++i) chart.marks.push_back({.x = 500, .title = "skipped & <gone>"});
  chart.marks.push_back({.x = 900, .title = "later"});
  chart.marks.push_back({.x = kNan, .title = "never"});
  const std::string svg = to_svg(chart);
  expect_sound(svg);
  EXPECT_EQ(count_of_text(svg, "class=\"mark-dot\""), 2U);
  EXPECT_THAT(svg, HasSubstr("<title>skipped &amp; &lt;gone&gt;</title>"));
}

TEST(LineChart, WideRangesOfPositiveNumbersAreLogarithmic) {
  EXPECT_EQ(axis_for({}), AxisKind::kLinear);
  EXPECT_EQ(axis_for({{.name = "a", .points = {{0, 1}, {1, 2}}}}), AxisKind::kLinear);
  EXPECT_EQ(axis_for({{.name = "a", .points = {{0, 1}, {1, 1e-3}}}}), AxisKind::kLog10);
  EXPECT_EQ(axis_for({{.name = "a", .points = {{0, 1}, {1, 0}}}}), AxisKind::kLinear);
}

}  // namespace
}  // namespace mezzo::report
