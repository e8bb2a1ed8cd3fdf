#include "mezzo/io/utf8.h"

#include <gtest/gtest.h>

namespace mezzo::io {
namespace {

constexpr std::size_t kNone = std::string_view::npos;

TEST(Utf8, AcceptsAllLengths) {
  EXPECT_EQ(find_invalid_utf8(""), kNone);
  EXPECT_EQ(find_invalid_utf8("a\x7f"), kNone);
  EXPECT_EQ(find_invalid_utf8("\xc2\x80\xdf\xbf"), kNone);
  EXPECT_EQ(find_invalid_utf8("\xe0\xa0\x80\xed\x9f\xbf\xee\x80\x80\xef\xbf\xbf"), kNone);
  EXPECT_EQ(find_invalid_utf8("\xf0\x90\x80\x80\xf4\x8f\xbf\xbf"), kNone);
}

TEST(Utf8, FindsWhatIsNot) {
  const std::string_view bad[] = {
      "\x80",              // a lone continuation byte
      "\xc3",              // cut off
      "\xc3(",             // not continued
      "\xc0\xaf",          // overlong
      "\xe0\x9f\xbf",      // overlong
      "\xed\xa0\x80",      // a surrogate
      "\xe2\x82",          // cut off
      "\xf0\x8f\xbf\xbf",  // overlong
      "\xf4\x90\x80\x80",  // above U+10FFFF
      "\xf5\x80\x80\x80",
      "\xff",
  };
  for (const std::string_view text : bad) {
    EXPECT_EQ(find_invalid_utf8(text), 0U);
    EXPECT_EQ(find_invalid_utf8("ok" + std::string(text) + "ok"), 2U);
  }
}

TEST(Utf8, EscapesOnlyWhatIsInvalid) {
  EXPECT_EQ(escape_invalid_utf8("a\xe2\x82\xac\n"), "a\xe2\x82\xac\n");
  EXPECT_EQ(escape_invalid_utf8("bad\xff/\xe2\x82"), "bad\\xff/\\xe2\\x82");
}

TEST(Utf8, QuotesAreShortAndPrintable) {
  EXPECT_EQ(in_quotes("conv.weight"), "'conv.weight'");
  EXPECT_EQ(in_quotes("a\nb\x7f"), "'a?b?'");
  EXPECT_EQ(in_quotes("abcdef", 4), "'abcd...'");
  EXPECT_EQ(in_quotes("abc\xe2\x82\xac", 4), "'abc...'");  // characters are not cut
}

}  // namespace
}  // namespace mezzo::io
