// Tests what is read of a tokenizer.json, and the numbers that come of it.
#include "mezzo/text/tokenizer_json.h"

#include <random>

#include <gmock/gmock.h>

#include "mezzo/text/tokenizer.h"
#include "tests/unit/data/temp_folder.h"
#include "tests/unit/text/small_tokenizer.h"

namespace mezzo::text {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

const std::vector<std::pair<std::string, std::string>> kMerges = {
    {"l", "l"}, {"h", "e"}, {"he", "ll"}, {"hell", "o"}, {"\u0120", "w"}};

TEST(TokenizerJson, EncodesByItsMerges) {
  const auto tokenizer = tokenizer_of(tokenizer_json(kMerges));
  EXPECT_EQ(tokenizer->vocabulary(), 261);
  EXPECT_THAT(tokenizer->encode("hello worll"), ElementsAre(259, 260, 'o', 'r', 256));
  EXPECT_THAT(tokenizer->encode("\u00e9"), ElementsAre(0xc3, 0xa9));
  EXPECT_THAT(tokenizer->encode(""), ElementsAre());
  EXPECT_EQ(tokenizer->decode(std::vector<std::int32_t>{259, 260, 0xc3}), "hello w\xc3");
  EXPECT_EQ(tokenizer->id_of(" w"), 260);
  EXPECT_EQ(tokenizer->id_of("\u0120w"), std::nullopt);
  EXPECT_EQ(tokenizer->id_of("hi"), std::nullopt);
}

TEST(TokenizerJson, ReadsMergesAsPairsAndAsText) {
  Json json = tokenizer_json(kMerges);
  const auto as_text = tokenizer_of(json);
  for (Json& merge : json["model"]["merges"]) {
    const std::string text = merge;
    merge = {text.substr(0, text.find(' ')), text.substr(text.find(' ') + 1)};
  }
  const auto as_pairs = tokenizer_of(json);
  EXPECT_EQ(as_pairs->encode("hello, hell w"), as_text->encode("hello, hell w"));
}

TEST(TokenizerJson, AddedTokensAreFoundInTheText) {
  Json json = tokenizer_json(kMerges);
  json["added_tokens"] = {added_json(261, "<|endoftext|>"), added_json(262, "<|e"),
                          added_json(256, "ll", false), added_json(263, "hello!", false)};
  const auto tokenizer = tokenizer_of(json);
  EXPECT_EQ(tokenizer->vocabulary(), 264);
  EXPECT_THAT(tokenizer->encode("<|endoftext|><|en"), ElementsAre(261, 262, 'n'));
  // What is special is looked for first; of the others, the longest counts.
  EXPECT_THAT(tokenizer->encode("hello!hello<|e!"), ElementsAre(263, 257, 256, 'o', 262, '!'));
  EXPECT_EQ(tokenizer->id_of("<|endoftext|>"), 261);
  EXPECT_EQ(tokenizer->decode(std::vector<std::int32_t>{261, 256}), "<|endoftext|>ll");
}

TEST(TokenizerJson, SplitsByTheFilesOwnExpressions) {
  Json json = tokenizer_json({{"a", "b"}, {"ab", "1"}});
  const Json split = {{"type", "Split"},
                      {"pattern", {{"Regex", R"(\p{L}+|\d)"}}},
                      {"behavior", "Isolated"},
                      {"invert", false}};
  const Json literal = {
      {"type", "Split"}, {"pattern", {{"String", "1a"}}}, {"behavior", "Isolated"}};
  const Json bytes = {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}};
  json["pre_tokenizer"] = bytes;
  EXPECT_THAT(tokenizer_of(json)->encode("ab1ab1"), ElementsAre(257, 257));
  json["pre_tokenizer"] = {{"type", "Sequence"}, {"pretokenizers", {split, bytes}}};
  EXPECT_THAT(tokenizer_of(json)->encode("ab1ab1"), ElementsAre(256, '1', 256, '1'));
  json["pre_tokenizer"] = {{"type", "Sequence"}, {"pretokenizers", {literal, bytes}}};
  EXPECT_THAT(tokenizer_of(json)->encode("ab1ab1"), ElementsAre(256, '1', 'a', 'b', '1'));
}

TEST(TokenizerJson, WholeWordsMayGoBeforeMerges) {
  Json json = tokenizer_json({{"a", "b"}});
  json["model"]["vocab"]["bab"] = 257;
  EXPECT_THAT(tokenizer_of(json)->encode("bab"), ElementsAre('b', 256));
  json["model"]["ignore_merges"] = true;
  EXPECT_THAT(tokenizer_of(json)->encode("bab"), ElementsAre(257));
}

// A special token whose characters stand for no bytes is in the vocabulary under its own text.
TEST(TokenizerJson, TokensOutsideTheAlphabetStandForTheirText) {
  Json json = tokenizer_json({});
  json["model"]["vocab"]["<\uff5cend\uff5c>"] = 256;
  json["added_tokens"] = {added_json(256, "<\uff5cend\uff5c>")};
  const auto tokenizer = tokenizer_of(json);
  EXPECT_THAT(tokenizer->encode("a<\uff5cend\uff5c>"), ElementsAre('a', 256));
  EXPECT_EQ(tokenizer->decode(std::vector<std::int32_t>{256}), "<\uff5cend\uff5c>");
  EXPECT_EQ(tokenizer->vocabulary(), 257);
}

std::string random_text(std::mt19937& random) {
  std::string text;
  for (std::size_t count = random() % 50; count > 0; --count) {
    constexpr std::uint32_t kLimits[] = {0x80, 0x800, 0x10000, 0x110000};
    const std::uint32_t c = random() % kLimits[random() % 4];
    if (c >= 0xd800 && c < 0xe000) continue;
    const auto byte = [&](std::uint32_t first, std::uint32_t shift) {
      text += static_cast<char>(first | ((c >> shift) & 0x3fU));
    };
    if (c < 0x80) {
      text += static_cast<char>(c);
    } else if (c < 0x800) {
      text += static_cast<char>(0xc0U | (c >> 6U)), byte(0x80, 0);
    } else if (c < 0x10000) {
      text += static_cast<char>(0xe0U | (c >> 12U)), byte(0x80, 6), byte(0x80, 0);
    } else {
      text += static_cast<char>(0xf0U | (c >> 18U)), byte(0x80, 12), byte(0x80, 6), byte(0x80, 0);
    }
    if (random() % 8 == 0) text += "hello <|endoftext|>  w";
  }
  return text;
}

TEST(TokenizerJson, EveryTextComesBack) {
  Json json = tokenizer_json(kMerges);
  json["added_tokens"] = {added_json(261, "<|endoftext|>")};
  const auto tokenizer = tokenizer_of(json);
  std::mt19937 random(1);
  for (int trial = 0; trial < 500; ++trial) {
    const std::string text = random_text(random);
    EXPECT_EQ(tokenizer->decode(tokenizer->encode(text)), text);
  }
}

// The parts of a long text together are the numbers of the whole.
TEST(TokenizerJson, LongTextsComeInParts) {
  const auto tokenizer = tokenizer_of(tokenizer_json(kMerges));
  std::string text;
  while (text.size() < 400'000) text += "hello world, " + std::to_string(text.size());
  std::vector<std::int32_t> ids;
  int parts = 0;
  tokenizer->encode_file_text(text, [&](std::span<const std::int32_t> part) {
    ids.insert(ids.end(), part.begin(), part.end());
    ++parts;
  });
  EXPECT_GT(parts, 1);
  EXPECT_EQ(ids, tokenizer->encode(text));
  EXPECT_EQ(tokenizer->decode(ids), text);
}

TEST(TokenizerJson, BrokenTextIsRefusedWithThePlace) {
  const auto tokenizer = tokenizer_of(tokenizer_json({}));
  const auto message = [&](std::string_view text) {
    return message_of<ArgumentError>([&] { static_cast<void>(tokenizer->encode(text)); });
  };
  EXPECT_EQ(message("ab\xff"), "[text] the text is not UTF-8: byte 2 is 255. Convert it to UTF-8");
  EXPECT_THAT(message("\xed\xa0\x80"), HasSubstr("byte 0 is 237"));
  EXPECT_THAT(message("a\xc3"), HasSubstr("byte 1 is 195"));
}

TEST(TokenizerJson, NumbersWithoutATokenAreRefused) {
  const auto tokenizer = tokenizer_of(tokenizer_json({}));
  for (const std::int32_t id : {-1, 256}) {
    EXPECT_EQ(message_of<ArgumentError>([&] {
                static_cast<void>(tokenizer->decode(std::vector<std::int32_t>{0, id}));
              }),
              "[text] no token has the number " + std::to_string(id) + "; they are 0 to 255");
  }
}

TEST(TokenizerJson, IsReadFromItsFile) {
  const data::TempFolder folder;
  const std::string text = "\n " + tokenizer_json(kMerges).dump();
  const std::string path = folder.write("tokenizer.json", data::Bytes(text.begin(), text.end()));
  EXPECT_THAT(read_tokenizer(path)->encode("hello"), ElementsAre(259));
  EXPECT_THAT(message_of<FileError>([&] { read_tokenizer(folder.path("none")); }),
              HasSubstr("none: cannot be opened"));
  EXPECT_THAT(message_of<FileError>([&] { read_tokenizer(folder.write("empty", {})); }),
              HasSubstr("empty: the file is empty"));
}

}  // namespace
}  // namespace mezzo::text
