#include "mezzo/report/exponent_chart.h"

#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mezzo/core/error.h"
#include "tests/unit/report/markup.h"
#include "tests/unit/report/support.h"
#include "tests/unit/special_values.h"

namespace mezzo::report {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST(ExponentBars, OneBarPerBinadeInTheColourOfItsFate) {
  const std::string svg =
      bars_to_svg(histogram_of("w", {1, 1, 1.5F, 0x1p-20F, 0x1p-30F, 70000, 0, kInf}), {});
  expect_sound(svg);
  EXPECT_EQ(count_of_text(svg, "class=\"kept\""), 1U);
  EXPECT_EQ(count_of_text(svg, "class=\"weak\""), 1U);
  EXPECT_EQ(count_of_text(svg, "class=\"lost\""), 1U);
  EXPECT_EQ(count_of_text(svg, "class=\"over\""), 1U);
  EXPECT_THAT(svg, HasSubstr(">50.0 %<"));  // 3 of the 6 that are finite and non-zero
  EXPECT_THAT(svg, Not(HasSubstr("f16 at")));
}

TEST(ExponentBars, TheBinadeOfTheSmallestF16IsNotLost) {
  EXPECT_THAT(bars_to_svg(histogram_of("w", {0x1.8p-25F}), {}), HasSubstr("class=\"weak\""));
  EXPECT_THAT(bars_to_svg(histogram_of("w", {0x1.8p-26F}), {}), HasSubstr("class=\"lost\""));
  EXPECT_THAT(bars_to_svg(histogram_of("w", {0x1p-14F}), {}), HasSubstr("class=\"kept\""));
  EXPECT_THAT(bars_to_svg(histogram_of("w", {0x1p16F}), {}), HasSubstr("class=\"over\""));
}

TEST(ExponentBars, AScaleIsDrawnIn) {
  const std::string svg = bars_to_svg(histogram_of("w", {1, 0x1p-20F}), {.shift = 13});
  expect_sound(svg);
  EXPECT_THAT(svg, HasSubstr("f16 at 2¹³"));
  EXPECT_EQ(count_of_text(svg, "class=\"limit scaled\""), 1U);  // 2^3; 2^-38 is not drawn
}

TEST(ExponentBars, ExtremesOfF32HaveAPlace) {
  expect_sound(bars_to_svg(histogram_of("w", {0x1p-149F, 0x1.fffffep127F}), {.shift = -40}));
}

TEST(ExponentBars, TheLargestAndTheRarestAreSeen) {
  EXPECT_EQ(count_of_text(bars_to_svg(histogram_of("w", {0x1p20F}), {}), "class=\"over\""), 1U);
  std::vector<float> values(10'000, 1);
  values.push_back(0x1p-20F);
  const std::string svg = bars_to_svg(histogram_of("w", values), {});
  EXPECT_EQ(count_of_text(svg, "height=\"1\" class=\"weak\""), 1U);
}

TEST(ExponentBars, WithoutGradientsThereIsNoDrawing) {
  EXPECT_THAT(bars_to_svg(histogram_of("w", {0, kInf}), {}), HasSubstr("No gradients"));
  EXPECT_THAT(bars_to_svg({}, {}), HasSubstr("No gradients"));
}

TEST(ExponentHeatMap, OneRowPerParameterWithItsNumbers) {
  const std::vector<amp::GradientHistogram> histograms{
      histogram_of("conv1.weight", {1, 0.5F, 0x1p-30F, 0x1p-31F}),
      histogram_of("a<b>&c", {0, 0, 0, 1}), histogram_of("without", {})};
  const std::string svg = heat_map_to_svg(histograms, {.shift = 10});
  expect_sound(svg);
  EXPECT_THAT(svg, HasSubstr("</title>without</text>"));
  EXPECT_THAT(svg, HasSubstr("</title>a&lt;b&gt;&amp;c</text>"));
  EXPECT_THAT(svg, HasSubstr(">50.0 %<"));  // lost
  EXPECT_THAT(svg, HasSubstr(">75.0 %<"));  // zero
  EXPECT_THAT(svg, HasSubstr("at 2¹⁰"));
  EXPECT_THAT(svg, Not(HasSubstr("nan")));  // from a row without gradients
  EXPECT_THAT(heat_map_to_svg({}, {}), HasSubstr("No gradients"));
}

TEST(ExponentHeatMap, LongNamesKeepTheirEndsAndWholeCharacters) {
  std::string name;
  for (int i = 0; i < 40; ++i) name += "ü";
  const std::vector<amp::GradientHistogram> histograms{histogram_of(name + ".weight", {1})};
  const std::string svg = heat_map_to_svg(histograms, {});
  EXPECT_THAT(svg, HasSubstr("…ü"));
  EXPECT_THAT(svg, HasSubstr("ü.weight</text>"));
  EXPECT_THAT(svg, HasSubstr("<title>" + name + ".weight [1]</title>"));
}

// A row's shades depend only on its own gradients.
TEST(ExponentHeatMap, ShadesAreByRow) {
  const std::vector<amp::GradientHistogram> histograms{histogram_of("a", {1}),
                                                       histogram_of("b", {2, 2, 2, 2})};
  const std::string svg = heat_map_to_svg(histograms, {});
  EXPECT_EQ(count_of_text(svg, "class=\"kept\" stroke-opacity=\"1\""), 1U);
  EXPECT_EQ(count_of_text(svg, "stroke-opacity"), 1U);
}

TEST(ExponentHeatMap, TheRarestBinadeHasAShade) {
  std::vector<float> values(10'000, 1);
  values.push_back(0x1p-20F);
  const std::vector<amp::GradientHistogram> histograms{histogram_of("w", values)};
  EXPECT_EQ(count_of_text(heat_map_to_svg(histograms, {}), "class=\"weak\" stroke-opacity"), 1U);
}

// With as many shades as there are, which is the worst case.
std::vector<amp::GradientHistogram> many_histograms(int count) {
  std::vector<float> values;
  for (int exponent = -40; exponent < 10; ++exponent) {
    for (int i = 0; i <= (exponent * 7) % 11; ++i) values.push_back(std::ldexp(1.0F, exponent));
  }
  std::vector<amp::GradientHistogram> histograms;
  for (int i = 0; i < count; ++i) {
    histograms.push_back(histogram_of(concat("backbone.layer3.", i, ".conv2.weight"), values));
  }
  return histograms;
}

TEST(ExponentHeatMap, ManyRowsStaySmall) {
  const std::string svg = heat_map_to_svg(many_histograms(161), {});
  expect_sound(svg);
  EXPECT_LT(svg.size(), 100'000U);
}

TEST(ExponentHeatMap, ARowWithoutFiniteValuesSaysWhy) {
  const std::vector<amp::GradientHistogram> histograms{histogram_of("a", {kInf, kNan, 0}),
                                                       histogram_of("b", {0, 0})};
  const std::string svg = heat_map_to_svg(histograms, {});
  expect_sound(svg);
  EXPECT_EQ(count_of_text(svg, ">infinite or NaN<"), 1U);
}

TEST(ExponentHeatMap, SaysInWordsWhatItShows) {
  const std::vector<amp::GradientHistogram> histograms{histogram_of("a", {1, 0x1p-30F}),
                                                       histogram_of("b", {0x1p-2F})};
  EXPECT_THAT(
      heat_map_to_svg(histograms, {.label = "L"}),
      HasSubstr("<title>L</title>\n<desc>2 rows. The exponents go from −30 to 0. Outside f16 "
                "without scaling is most of a: 50.0 %.</desc>"));
  EXPECT_THAT(heat_map_to_svg({&histograms[1], 1}, {}), HasSubstr("is none of any row."));
  const auto empty = histogram_of("c", {});
  EXPECT_THAT(heat_map_to_svg({&empty, 1}, {}), HasSubstr("No value is finite"));
}

TEST(ExponentBars, SayInWordsWhatTheyShow) {
  EXPECT_THAT(bars_to_svg(histogram_of("w", {1, 1, 1, 0x1p-20F}), {.label = "L"}),
              HasSubstr("<title>L</title>\n<desc>The exponents go from −20 to 0. The most frequent "
                        "one is 0, of 75.0 % of the values. f16 without scaling makes zero of: "
                        "none; keeps with fewer bits: 25.0 %; overflows: none.</desc>"));
}

TEST(HeatMaps, VeryManyRowsAreFoldedAfterTheMostAffected) {
  auto histograms = many_histograms(47);
  histograms.push_back(histogram_of("worst", {0x1p-30F}));
  EXPECT_THAT(heat_maps(histograms, {.label = "L"}, "module"), Not(HasSubstr("<details>")));
  histograms.push_back(histogram_of("also", {0x1p-20F}));
  const std::string html = heat_maps(histograms, {.label = "L"}, "module");
  EXPECT_EQ(markup_fault(html), "");
  EXPECT_THAT(html, HasSubstr("Those 24 of 49 modules that f16"));
  EXPECT_THAT(html, HasSubstr("<summary>All 49 modules</summary>"));
  EXPECT_LT(html.find("worst</text>"), html.find("<details>"));
  EXPECT_EQ(count_of_text(html, "<svg"), 3U);  // rows 1 to 48 and the last one
  const std::string most = heat_maps(many_histograms(500), {.label = "L"}, "module");
  EXPECT_THAT(most, HasSubstr("The 400 of 500 modules that f16 affects most"));
  EXPECT_LT(most.size(), 260'000U);
}

}  // namespace
}  // namespace mezzo::report
