#include "mezzo/text/pattern.h"

#include <gmock/gmock.h>

#include "mezzo/text/word_splitter.h"
#include "tests/unit/message_of.h"

namespace mezzo::text {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::vector<std::string> words_of(std::string_view text, const std::vector<std::string>& patterns) {
  std::vector<Regex> steps;
  for (const std::string& pattern : patterns) steps.emplace_back(for_pcre2(pattern));
  std::vector<std::string> words;
  WordSplitter(steps).split(text, [&](std::string_view word) { words.emplace_back(word); });
  return words;
}

std::vector<std::string> gpt2_words(std::string_view text) {
  return words_of(text, {std::string(kGpt2Pattern)});
}

TEST(Pattern, DividesAsGpt2Does) {
  EXPECT_THAT(gpt2_words("Hello  world's 12x!?\n\n y"),
              ElementsAre("Hello", " ", " world", "'s", " 12", "x", "!?", "\n\n", " y"));
  EXPECT_THAT(gpt2_words(" \t"), ElementsAre(" \t"));
  EXPECT_THAT(gpt2_words("\u00e9t\u00e9 \u65e5\u672c \u0663\u0664"),
              ElementsAre("\u00e9t\u00e9", " \u65e5\u672c", " \u0663\u0664"));
  EXPECT_THAT(gpt2_words(""), ElementsAre());
}

// U+180E is no white space, and U+0085 is.
TEST(Pattern, WhiteSpaceIsUnicodes) {
  EXPECT_THAT(words_of("a\u180eb\u0085c", {R"(\s)"}), ElementsAre("a\u180eb", "\u0085", "c"));
  EXPECT_THAT(words_of("a\u180e \u3000b", {R"([^\s]+)"}), ElementsAre("a\u180e", " \u3000", "b"));
  EXPECT_THAT(words_of("a \u00a0b", {R"(\S)"}), ElementsAre("a", " \u00a0", "b"));
}

TEST(Pattern, ReadsWhatOthersWrite) {
  // As cl100k divides text.
  const std::string cl100k =
      R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
  EXPECT_THAT(words_of("It'S 12345 (ok)\r\n  x", {cl100k}),
              ElementsAre("It", "'S", " ", "123", "45", " (", "ok", ")\r\n", " ", " x"));
  EXPECT_THAT(words_of("a1_\u0301-b", {R"(\w+)"}), ElementsAre("a1_\u0301", "-", "b"));
  EXPECT_THAT(words_of("a-b", {R"(\W)"}), ElementsAre("a", "-", "b"));
  EXPECT_THAT(words_of("a12b", {R"(\d)"}), ElementsAre("a", "1", "2", "b"));
  EXPECT_THAT(words_of("a12b", {R"(\D)"}), ElementsAre("a", "12", "b"));
  EXPECT_THAT(words_of("x\u65e5y", {R"(\p{Han})"}), ElementsAre("x", "\u65e5", "y"));
  EXPECT_THAT(words_of("aBc", {R"(\p{^Lu}+)"}), ElementsAre("a", "B", "c"));
  EXPECT_THAT(words_of("a\u00e9b", {R"(\u00E9)"}), ElementsAre("a", "\u00e9", "b"));
  EXPECT_THAT(words_of("aab", {R"(\x61|[\x{62}])"}), ElementsAre("a", "a", "b"));
  EXPECT_THAT(words_of("a\vb-]", {R"(\v|[\-\]])"}), ElementsAre("a", "\v", "b", "-", "]"));
}

TEST(Pattern, StepsDivideEachOthersWords) {
  EXPECT_THAT(words_of("ab12 c", {R"(\d+)", R"(b|\s)"}), ElementsAre("a", "b", "12", " ", "c"));
}

TEST(Pattern, RefusesWhatIsReadDifferently) {
  for (const char* pattern : {"^a",
                              "a$",
                              "(*UTF)a",
                              "(?<name>a)",
                              "(?i)a",
                              "(?x: a)",
                              "(?#no)a",
                              R"(\ba)",
                              R"(\Aa)",
                              R"(a\h)",
                              R"((a)\1)",
                              R"(\R)",
                              "[[:alpha:]]",
                              "[a&&b]",
                              "[]a]",
                              "[a[b]]",
                              "a{,3}",
                              "a{1,3}+",
                              "a{2}?",
                              "a{",
                              "a{x}",
                              R"([\S])",
                              R"([\s-z])",
                              R"([a-\d])",
                              R"(\pL)",
                              R"(\p{L)",
                              R"(\p{Script=Han})",
                              R"(\xff)",
                              R"(\x{110000})",
                              R"(\u12)",
                              R"(\x{})",
                              "\\"}) {
    EXPECT_THAT(message_of<ArgumentError>([&] { static_cast<void>(for_pcre2(pattern)); }),
                HasSubstr("[text] mezzo does not support '"))
        << pattern;
  }
}

TEST(Pattern, WrongExpressionsAreRefusedInPcre2sWords) {
  const auto message = [](const char* pattern) {
    return message_of<ArgumentError>([&] { Regex regex(for_pcre2(pattern)); });
  };
  EXPECT_THAT(message("(a"), HasSubstr("missing closing parenthesis"));
  EXPECT_THAT(message("*a"), HasSubstr("quantifier does not follow a repeatable item"));
  EXPECT_THAT(message(R"(\p{Nosuch})"), HasSubstr("unknown property"));
  EXPECT_THAT(message("a*"), HasSubstr("it matches the empty text, too"));
}

// An expression whose steps double with each character ends with an error.
TEST(Pattern, ASearchEnds) {
  const std::string text = std::string(100, 'a') + "cb";
  EXPECT_THAT(
      message_of<ArgumentError>([&] { static_cast<void>(words_of(text, {"(?:a+)+[bd]"})); }),
      HasSubstr("cannot be searched for at byte 0"));
}

TEST(Pattern, LiteralsStandForThemselves) {
  const std::string literal("a.*\\E[\u00e9] \n#\0", 14);
  const Regex regex(literal_for_pcre2(literal));
  RegexSearch search(regex);
  const auto found = search.find("x" + literal, 0);
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->begin, 1U);
  EXPECT_EQ(found->end, 1 + literal.size());
}

}  // namespace
}  // namespace mezzo::text
