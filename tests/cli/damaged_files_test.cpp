// Tests what the command says about files of tokens, tokenizers and PyTorch's weights that are cut
// off or damaged: one line that names the file, and status 2.
#include <algorithm>
#include <fstream>
#include <utility>
#include <vector>

#include <gmock/gmock.h>

#include "mezzo/core/error.h"
#include "tests/cli/command.h"
#include "tests/unit/io/pytorch_sample.h"

namespace mezzo::cli_tests {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

class DamagedFiles : public Command {
 protected:
  void write(const std::string& name, const std::string& bytes) const {
    std::ofstream(path(name), std::ios::binary) << bytes;
  }

  void expect_one_line(const std::string& arguments, const std::string& file,
                       const std::string& what) const {
    const Outcome outcome = run(arguments);
    EXPECT_EQ(outcome.status, 2) << arguments;
    EXPECT_EQ(std::ranges::count(outcome.errors, '\n'), 1) << outcome.errors;
    EXPECT_THAT(outcome.errors, StartsWith("mezzo: [")) << arguments;
    EXPECT_THAT(outcome.errors, HasSubstr(file)) << arguments;
    EXPECT_THAT(outcome.errors, HasSubstr(what)) << arguments;
    EXPECT_EQ(outcome.output, "") << arguments;
  }
};

// u16 tokens after the header of llm.c, of 1024 bytes.
std::string token_bytes(std::int32_t count, const std::vector<int>& tokens) {
  std::string bytes;
  for (const std::int32_t number : {20240520, 1, count}) bytes += io::sample::number_bytes(number);
  bytes.resize(1024);
  for (const int token : tokens)
    bytes += io::sample::number_bytes(static_cast<std::uint16_t>(token));
  return bytes;
}

TEST_F(DamagedFiles, OfTokens) {
  const std::vector<int> tokens(60, 7);
  const std::string sound = token_bytes(60, tokens);
  fs::create_directories(folder_ / "set");
  write("set/val.bin", sound);
  std::string beyond = sound;
  beyond[1024 + 41] = '\xff';  // the upper half of a token
  const std::pair<std::string, const char*> cases[] = {
      {"", "is empty"},
      {sound.substr(0, 300), "it ends within its header"},
      {sound.substr(0, sound.size() - 1), "the header counts 60 tokens, and 119 bytes follow it"},
      {sound.substr(1024, 41), "41 bytes, which is no whole number of u16 tokens"},
      {token_bytes(-1, tokens), "the header counts -1 tokens"},
      {beyond, "token 20 is 65287, and the model's vocabulary has 256"}};
  for (const auto& [bytes, what] : cases) {
    write("set/train.bin", bytes);
    expect_one_line(
        "train --model gpt-tiny --tokens 8 --batch-size 2 --steps 1 --data tokens:" + path("set"),
        "set/train.bin: ", what);
  }
}

TEST_F(DamagedFiles, OfTokenizers) {
  write("text", "some words, and some more\nand another line\n");
  std::string words;
  for (int i = 0; i < 40; ++i) words += "some words, and some more words\n";
  write("words", words);
  const Outcome made =
      run("tokenize --train 270 --input " + path("words") + " --out " + path("made"));
  ASSERT_EQ(made.status, 0) << made.errors;
  const std::string sound = read_text("made/tokenizer.json");
  std::string other = sound;
  other.replace(other.find("\"vocab\""), 7, "\"vacab\"");
  for (const std::string& bytes :
       {sound.substr(0, sound.size() / 2), sound.substr(0, sound.size() - 2), other,
        std::string("{\"model\": 3}"), std::string("{\xff"), std::string()}) {
    write("tokenizer.json", bytes);
    expect_one_line("tokenize --input " + path("text") + " --out " + path("new") + " --tokenizer " +
                        path("tokenizer.json"),
                    "tokenizer.json", "");
    EXPECT_FALSE(fs::exists(path("new")));
  }
}

TEST_F(DamagedFiles, OfPyTorchWeights) {
  const std::string sound = io::sample::small_file();
  std::string other = sound;
  other[other.find("layer.weight")] = 'L';  // which the checksum of the archive shows
  for (const std::string& bytes : {sound.substr(0, sound.size() / 2),
                                   sound.substr(0, sound.size() - 1), sound.substr(0, 4), other}) {
    write("weights.pth", bytes);
    for (const char* command : {"train --steps 1", "eval", "export --out /dev/null"}) {
      expect_one_line(concat(command, " --model mlp --weights ", path("weights.pth")),
                      "weights.pth", "");
    }
  }
}

}  // namespace
}  // namespace mezzo::cli_tests
