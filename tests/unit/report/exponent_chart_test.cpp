#include "mezzo/report/exponent_chart.h"

#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

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
  EXPECT_THAT(svg, HasSubstr("f16 at 2^13"));
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
  EXPECT_EQ(count_of_text(svg, "class=\"name\""), 3U);
  EXPECT_THAT(svg, HasSubstr(">a&lt;b&gt;&amp;c</text>"));
  EXPECT_THAT(svg, HasSubstr(">50.0 %<"));  // lost
  EXPECT_THAT(svg, HasSubstr(">75.0 %<"));  // zero
  EXPECT_THAT(svg, HasSubstr("at 2^10"));
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
  EXPECT_EQ(count_of_text(svg, "class=\"kept\" fill-opacity=\"1\""), 1U);
  EXPECT_EQ(count_of_text(svg, "fill-opacity"), 1U);
}

TEST(ExponentHeatMap, TheRarestBinadeHasAShade) {
  std::vector<float> values(10'000, 1);
  values.push_back(0x1p-20F);
  const std::vector<amp::GradientHistogram> histograms{histogram_of("w", values)};
  EXPECT_EQ(count_of_text(heat_map_to_svg(histograms, {}), "class=\"weak\" fill-opacity"), 1U);
}

TEST(ExponentHeatMap, ManyRowsStaySmall) {
  std::vector<float> values;
  for (int exponent = -40; exponent < 10; ++exponent) values.push_back(std::ldexp(1.0F, exponent));
  const std::vector<amp::GradientHistogram> histograms(161, histogram_of("layer", values));
  const std::string svg = heat_map_to_svg(histograms, {});
  expect_sound(svg);
  EXPECT_LT(svg.size(), 500'000U);
}

}  // namespace
}  // namespace mezzo::report
