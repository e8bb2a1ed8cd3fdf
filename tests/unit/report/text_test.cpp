#include "mezzo/report/text.h"

#include <cmath>
#include <limits>

#include <gtest/gtest.h>

namespace mezzo::report {
namespace {

TEST(ReportText, EscapesMarkupAndControlCharacters) {
  EXPECT_EQ(escape("a<b> & \"c\" 'd'"), "a&lt;b&gt; &amp; &quot;c&quot; &#39;d&#39;");
  EXPECT_EQ(escape(std::string_view("a\0b\x1b\n", 5)), "a b  ");
  EXPECT_EQ(escape("größer ≥ 2"), "größer ≥ 2");
}

TEST(ReportText, Numbers) {
  EXPECT_EQ(format_number(0.0314159), "0.03142");
  EXPECT_EQ(format_number(12), "12");
  EXPECT_EQ(format_number(1.5e-9, 3), "1.5e-09");
  EXPECT_EQ(format_number(std::nan("")), "nan");
  EXPECT_EQ(format_number(-std::numeric_limits<double>::infinity()), "-inf");
  EXPECT_EQ(format_fixed(98.125, 2), "98.12");
  EXPECT_EQ(format_fixed(std::nan(""), 2), "nan");
  EXPECT_EQ(format_fixed(std::numeric_limits<double>::max(), 1).size(), 309U + 2U);
}

TEST(ReportText, OnlyNothingIsNoneAndOnlyEverythingIsAll) {
  EXPECT_EQ(format_part(0), "none");
  EXPECT_EQ(format_part(1e-9), "less than 0.01 %");
  EXPECT_EQ(format_part(0.0025), "0.25 %");
  EXPECT_EQ(format_part(0.1234), "12.3 %");
  EXPECT_EQ(format_part(0.99995), "more than 99.99 %");  // not 100.0 %
  EXPECT_EQ(format_part(0.999999), "more than 99.99 %");
  EXPECT_EQ(format_part(1), "all");
}

TEST(ReportText, PowersOfTwoAndCounts) {
  EXPECT_EQ(power_of_two(13), "2¹³");
  EXPECT_EQ(power_of_two(-24), "2⁻²⁴");
  EXPECT_EQ(power_of_two(0), "2⁰");
  EXPECT_EQ(format_scale(65536), "2¹⁶");
  EXPECT_EQ(format_scale(0.25), "2⁻²");
  EXPECT_EQ(format_scale(1000), "1000");
  EXPECT_EQ(format_scale(1), "1");
  EXPECT_EQ(format_scale(0), "0");
  EXPECT_EQ(count_of(1, "step"), "1 step");
  EXPECT_EQ(count_of(0, "step"), "0 steps");
}

// The examples of RFC 4648, section 10, and bytes that give the last two digits.
TEST(Text, Base64) {
  const auto of = [](std::string_view text) {
    return base64(std::as_bytes(std::span(text.data(), text.size())));
  };
  EXPECT_EQ(of(""), "");
  EXPECT_EQ(of("f"), "Zg==");
  EXPECT_EQ(of("fo"), "Zm8=");
  EXPECT_EQ(of("foo"), "Zm9v");
  EXPECT_EQ(of("foobar"), "Zm9vYmFy");
  EXPECT_EQ(of("\xfb\xff\xbf"), "+/+/");
}

}  // namespace
}  // namespace mezzo::report
