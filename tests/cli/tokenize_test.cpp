// Tests mezzo tokenize.
#include <algorithm>
#include <cstring>

#include <gmock/gmock.h>

#include "mezzo/text/tokenizer.h"
#include "tests/cli/command.h"

namespace mezzo::cli_tests {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

std::string lines_of_text() {
  std::string text;
  for (int line = 0; line < 100; ++line) {
    text += "the " + std::to_string(line) + "th line of the text, \u00e9t\u00e9 \U0001f600\n";
  }
  return text;
}

void write_text(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

// The numbers of a file of u16, whose header is checked.
std::vector<std::int32_t> tokens_of(const std::string& bytes) {
  EXPECT_GE(bytes.size(), 1024U);
  std::array<std::int32_t, 256> header{};
  std::memcpy(header.data(), bytes.data(), std::min<std::size_t>(bytes.size(), 1024));
  EXPECT_EQ(header[0], 20240520);
  EXPECT_EQ(header[1], 1);
  EXPECT_EQ(bytes.size(), 1024 + 2 * static_cast<std::size_t>(header[2]));
  std::vector<std::int32_t> tokens;
  for (std::size_t i = 1024; i + 1 < bytes.size(); i += 2) {
    tokens.push_back(static_cast<unsigned char>(bytes[i]) | static_cast<unsigned char>(bytes[i + 1])
                                                                << 8U);
  }
  return tokens;
}

TEST_F(Command, TokenizeMakesATokenizerAndWritesTwoFiles) {
  write_text(path("text"), lines_of_text());
  const Outcome outcome =
      run("tokenize --train 280 --input " + path("text") + " --out " + path("new/set"));
  ASSERT_EQ(outcome.status, 0) << outcome.errors;
  EXPECT_THAT(outcome.output, AllOf(HasSubstr("new/set/train.bin: "), HasSubstr("val.bin: "),
                                    HasSubstr("tokenizer.json: a vocabulary of 280, in 16 bits")));
  const auto tokenizer = text::read_tokenizer(path("new/set/tokenizer.json"));
  const std::string train = tokenizer->decode(tokens_of(read_text("new/set/train.bin")));
  const std::string test = tokenizer->decode(tokens_of(read_text("new/set/val.bin")));
  EXPECT_EQ(train + test, lines_of_text());
  // The last tenth, whole lines.
  EXPECT_EQ(std::ranges::count(test, '\n'), 9);
  EXPECT_THAT(test, StartsWith("the 91th line"));
}

TEST_F(Command, TokenizeReadsATokenizerAndKeepsACopy) {
  write_text(path("text"), lines_of_text());
  ASSERT_EQ(run("tokenize --train 280 --input " + path("text") + " --out " + path("a")).status, 0);
  const Outcome outcome = run("tokenize --tokenizer " + path("a/tokenizer.json") + " --input " +
                              path("text") + " --out " + path("b"));
  ASSERT_EQ(outcome.status, 0) << outcome.errors;
  for (const char* name : {"train.bin", "val.bin", "tokenizer.json"}) {
    EXPECT_EQ(read_text(std::string("a/") + name), read_text(std::string("b/") + name)) << name;
  }
}

// Wide numbers for a large vocabulary: tokens are added to it, for a text has few.
TEST_F(Command, TokenizeWritesU32WhereTheVocabularyIsLarge) {
  write_text(path("text"), lines_of_text());
  ASSERT_EQ(run("tokenize --train 257 --input " + path("text") + " --out " + path("a")).status, 0);
  Json json = Json::parse(read_text("a/tokenizer.json"));
  for (int id = 257; id <= 65536; ++id) {
    json["added_tokens"].push_back(
        {{"id", id}, {"content", "<|" + std::to_string(id) + "|>"}, {"special", true}});
  }
  write_text(path("large.json"), json.dump());
  write_text(path("text"), "<|65536|>\na\n");
  ASSERT_EQ(run("tokenize --tokenizer " + path("large.json") + " --input " + path("text") +
                " --out " + path("b"))
                .status,
            0);
  const std::string bytes = read_text("b/train.bin");
  std::int32_t numbers[3] = {};
  std::memcpy(numbers, bytes.data(), sizeof(numbers));
  EXPECT_THAT(numbers, testing::ElementsAre(20240801, 7, 3));
  ASSERT_EQ(bytes.size(), 1024U + 12);
  std::memcpy(numbers, bytes.data() + 1024, 4);
  EXPECT_EQ(numbers[0], 65536);
}

TEST_F(Command, TokenizeSaysWhatIsWrong) {
  write_text(path("text"), lines_of_text());
  write_text(path("broken"), "ab\xff");
  write_text(path("empty"), "");
  write_text(path("short"), "a");
  write_text(path("bad.json"), "{\"model\": {\"type\": \"WordPiece\"}}");
  write_text(path("file"), "");
  const std::string out = " --out " + path("new");
  const auto with = [&](const std::string& options, const std::string& input) {
    return options + " --input " + path(input) + out;
  };
  const std::pair<std::string, const char*> cases[] = {
      {with("", "text"),
       "[--tokenizer] is missing. Give a tokenizer's file, or have one made by --train"},
      {with("--train 300 --tokenizer " + path("bad.json"), "text"),
       "[--tokenizer] and --train cannot both be given"},
      {with("--train 256", "text"), "[text] a vocabulary has 257 to 268435456 tokens, not 256"},
      {with("--train 300", "broken"), "broken: not UTF-8: byte 2 is 255. Convert it to UTF-8"},
      {with("--train 300", "empty"), "empty: 0 bytes are too few"},
      {with("--train 300", "short"), "short: 1 bytes are too few"},
      {with("--train 300", "none"), "none: cannot be opened"},
      {with("--tokenizer " + path("bad.json"), "text"),
       "its model is WordPiece, mezzo supports BPE"},
      {with("--tokenizer " + path("none"), "text"), "none: cannot be opened"},
      {"--train 300 --input " + path("text") + " --out " + path("file"), "[--out] "},
      {"--train 300 --input " + path("text"), "--out is required"},
  };
  for (const auto& [options, message] : cases) {
    const Outcome outcome = run("tokenize " + options);
    EXPECT_EQ(outcome.status, 2) << options;
    EXPECT_THAT(outcome.errors, AllOf(StartsWith("mezzo: "), HasSubstr(message))) << options;
    EXPECT_EQ(std::ranges::count(outcome.errors, '\n'), 1) << options;
    EXPECT_FALSE(fs::exists(path("new"))) << options;
  }
}

// The text is not replaced by what is made of it.
TEST_F(Command, TokenizeKeepsItsInput) {
  write_text(path("train.bin"), lines_of_text());
  const Outcome outcome =
      run("tokenize --train 300 --input " + path("train.bin") + " --out " + path(""));
  EXPECT_EQ(outcome.status, 2);
  EXPECT_THAT(outcome.errors, HasSubstr("is the file of --input, too"));
  EXPECT_EQ(read_text("train.bin"), lines_of_text());
}

}  // namespace
}  // namespace mezzo::cli_tests
