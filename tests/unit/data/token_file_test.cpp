#include "mezzo/data/token_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mezzo/core/error.h"
#include "mezzo/data/open.h"
#include "tests/unit/data/token_files.h"

namespace mezzo::data {
namespace {

using testing::HasSubstr;

TokenList all_of(const TokenSet& tokens) {
  TokenList all(static_cast<std::size_t>(tokens.size()));
  tokens.read(0, all);
  return all;
}

TEST(OpenText, TakesBytesAndKeepsTheLastTenthForTests) {
  const TempFolder folder;
  Bytes bytes;
  for (int i = 0; i < 39; ++i) bytes.push_back(static_cast<std::uint8_t>(250 - i));
  const std::string path = folder.write("text", bytes);
  const auto train = open_text(path, Split::kTrain, 256);
  const auto test = open_text(path, Split::kTest, 256);
  EXPECT_EQ(train->size(), 36);
  EXPECT_EQ(all_of(*test), (TokenList{214, 213, 212}));
  EXPECT_EQ(all_of(*train).front(), 250);
  EXPECT_EQ(all_of(*train).back(), 215);
  TokenList two(2);
  train->read(34, two);
  EXPECT_EQ(two, (TokenList{216, 215}));
}

TEST(OpenTokenFile, ReadsRawNumbersOfBothWidths) {
  const TempFolder folder;
  const TokenList numbers = counted(40, 65'490 - 20);
  const auto narrow = open_token_file(folder.write("u16.bin", stored(numbers, 2)));
  EXPECT_EQ(narrow->width(), TokenWidth::kU16);
  EXPECT_EQ(all_of(*narrow), numbers);
  // The upper halves say it.
  const auto wide = open_token_file(folder.write("u32.bin", stored(numbers, 4)), 65'536);
  EXPECT_EQ(wide->width(), TokenWidth::kU32);
  EXPECT_EQ(all_of(*wide), numbers);
  // The vocabulary says it.
  const TokenList large{100'000, 7, 127'999};
  const auto wider = open_token_file(folder.write("llama.bin", stored(large, 4)), 128'000);
  EXPECT_EQ(all_of(*wider), large);
  // Too few numbers to be sure of: u16, as usual.
  const auto few = open_token_file(folder.write("few.bin", stored({1, 2, 3}, 4)));
  EXPECT_EQ(all_of(*few), (TokenList{1, 0, 2, 0, 3, 0}));
}

TEST(OpenTokenFile, ReadsWhatFollowsAHeader) {
  const TempFolder folder;
  const TokenList numbers{5, 50'256, 0};
  const auto read = [&](const TokenList& begin, int width) {
    return all_of(*open_token_file(
        folder.write("a.bin", joined(header(begin), stored(numbers, width))), 50'257));
  };
  EXPECT_EQ(read({20240520, 1, 3}, 2), numbers);
  EXPECT_EQ(read({20240520, 1, 3}, 4), numbers);
  EXPECT_EQ(read({20240801, 7, 3}, 4), numbers);
}

TEST(OpenTokenFile, SaysWhatIsWrongAndWhere) {
  const TempFolder folder;
  const std::string path = folder.path("a.bin");
  const auto error_of = [&](const Bytes& bytes, std::int64_t vocabulary = 0) {
    folder.write("a.bin", bytes);
    return message_of<FileError>([&] { open_token_file(path, vocabulary); });
  };
  EXPECT_EQ(error_of({}),
            concat("[tokens] ", path, ": is empty. Check that this is the right file"));
  EXPECT_EQ(
      error_of({1, 2, 3}),
      concat("[tokens] ", path,
             ": has 3 bytes, which is no whole number of u16 tokens. Copy or download the file "
             "again"));
  EXPECT_THAT(error_of({1, 2, 3, 4, 5, 6}, 100'000), HasSubstr("no whole number of u32 tokens"));
  const Bytes sound = joined(header({20240520, 1, 3}), stored({1, 2, 3}, 2));
  EXPECT_THAT(error_of({sound.begin(), sound.begin() + 20}),
              HasSubstr("short file: it ends within its header of 1024 bytes"));
  EXPECT_THAT(
      error_of({sound.begin(), sound.end() - 1}),
      HasSubstr("the header counts 3 tokens, and 5 bytes follow it, expected 2 or 4 for each"));
  EXPECT_THAT(error_of(joined(sound, {0, 0})),
              HasSubstr("the header counts 3 tokens, and 8 bytes"));
  EXPECT_THAT(error_of(header({20240520, 1, 0})), HasSubstr("the header counts 0 tokens"));
  EXPECT_THAT(error_of(joined(header({20240520, 1, -1}), {0, 0})),
              HasSubstr("the header counts -1 tokens"));
  EXPECT_THAT(error_of(joined(header({20240520, 2, 1}), {0, 0})),
              HasSubstr("the header is of version 2, expected 1. Write the file anew"));
  EXPECT_THAT(error_of(joined(header({20240801, 7, 2}), {0, 0, 0, 0})),
              HasSubstr("expected 4 for each"));
  EXPECT_EQ(
      error_of(stored({3, 255, 256, 1}, 2), 256),
      concat("[tokens] ", path,
             ": token 2 is 256, and the model's vocabulary has 256. Use tokens of the model's "
             "tokenizer, or a model with a larger vocabulary"));
}

// What lies beyond the part that is looked at when a file is opened.
TEST(TokenSet, SaysWhichTokenIsWrongWhenItIsRead) {
  const TempFolder folder;
  constexpr std::uintmax_t kBytes = std::uintmax_t{1} << 26;  // of the zeros of a sparse file
  const std::string path = folder.write("a.bin", {1, 0, 1, 0});
  std::filesystem::resize_file(path, kBytes);
  std::ofstream(path, std::ios::binary | std::ios::app).write("\xff\xff", 2);
  const auto tokens = open_token_file(path, 50'257);
  TokenList last(4);
  EXPECT_THAT(message_of<FileError>([&] { tokens->read(tokens->size() - 4, last); }),
              HasSubstr("token 33554432 is 65535, and"));
}

TEST(OpenTokens, OpensByName) {
  const TempFolder folder;
  folder.write("train.bin", stored({1, 2, 3, 4}, 2));
  folder.write("val.bin", stored({9, 8}, 2));
  const std::string spec = "tokens:" + folder.path();
  EXPECT_EQ(all_of(*open_tokens(spec, Split::kTrain)), (TokenList{1, 2, 3, 4}));
  EXPECT_EQ(all_of(*open_tokens(spec, Split::kTest)), (TokenList{9, 8}));
  EXPECT_EQ(open_tokens("text:" + folder.write("t", Bytes(20)), Split::kTest)->size(), 2);
  EXPECT_TRUE(names_tokens(spec));
  EXPECT_FALSE(names_tokens("images:" + folder.path()));
  EXPECT_FALSE(names_tokens("text"));
}

TEST(OpenTokens, SaysWhatItNeeds) {
  const TempFolder folder;
  const auto error_of = [](const std::string& spec) {
    return message_of<Error>([&] { open_tokens(spec, Split::kTest); });
  };
  EXPECT_EQ(error_of("text:"), "[data] text needs a path: text:. Write text:FILE");
  EXPECT_EQ(error_of("tokens"), "[data] tokens needs a path: tokens. Write tokens:DIR");
  EXPECT_EQ(error_of("digits"),
            "[data] no such set of tokens: `digits`. Use text:FILE or tokens:DIR");
  EXPECT_EQ(error_of("text:" + folder.path()),
            concat("[text] ", folder.path(), ": is a folder. Name a file"));
  EXPECT_THAT(error_of("text:" + folder.write("short", Bytes(9))),
              HasSubstr("has 9 bytes, so that its last tenth, which is for testing, is empty"));
  EXPECT_EQ(error_of("tokens:" + folder.path("none")),
            concat("[tokens] ", folder.path("none"), ": there is no such folder. Check the path"));
  EXPECT_EQ(error_of("tokens:" + folder.path()),
            concat("[tokens] ", folder.path("val.bin"),
                   ": there is no such file. A folder of tokens holds train.bin and val.bin"));
  EXPECT_THAT(message_of<ArgumentError>([] { open_dataset("text:a", Split::kTest); }),
              HasSubstr("text:a has tokens, not images. Use digits"));
}

TEST(IsFileOf, KnowsTheFilesOfTokens) {
  const TempFolder folder;
  EXPECT_TRUE(is_file_of("tokens:" + folder.path(), folder.path("val.bin")));
  EXPECT_FALSE(is_file_of("tokens:" + folder.path(), folder.path("weights.safetensors")));
  const std::string text = folder.write("text", {1});
  EXPECT_TRUE(is_file_of("text:" + text, folder.path("./text")));
  EXPECT_FALSE(is_file_of("text:" + text, folder.path("text.json")));
}

}  // namespace
}  // namespace mezzo::data
