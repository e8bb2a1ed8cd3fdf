// Fuzzes tokenizer.json, from memory.
#include "mezzo/text/byte_alphabet.h"
#include "mezzo/text/tokenizer_json.h"
#include "mezzo/text/train_bpe.h"
#include "tests/fuzz/fuzz.h"

namespace mezzo::fuzz {
namespace {

constexpr std::string_view kText =
    "The theme\u0301 of the text: 12345 words' ends,\r\n\t it'S  \u65e5\u672c\u8a9e "
    "\U0001f600<|endoftext|>";

std::string quoted_tokens() {
  std::string text;
  for (unsigned byte = 0; byte < 256; ++byte) {
    const char character = static_cast<char>(byte);
    std::string token = text::in_alphabet({&character, 1});
    if (token == "\"" || token == "\\") token.insert(0, "\\");
    text += (byte > 0 ? ",\"" : "\"") + token + "\":" + std::to_string(byte);
  }
  return text;
}

// A tokenizer of bytes and one merge, with a step of this expression.
Bytes with_expression(std::string_view expression) {
  return bytes_of(
      R"({"added_tokens":[{"id":257,"content":"<|endoftext|>","special":true}],"pre_tokenizer":{"type":)"
      R"("Sequence","pretokenizers":[{"type":"Split","pattern":{"Regex":")" +
      std::string(expression) +
      R"("},"behavior":"Isolated"},{"type":"ByteLevel","use_regex":false}]},"model":{"type":"BPE",)"
      R"("merges":[["t","h"]],"vocab":{)" +
      quoted_tokens() + R"(,"th":256}}})");
}

}  // namespace

void read(Input input) {
  const auto tokenizer = text::parse_tokenizer_json(text_of(input), "fuzzed");
  const std::vector<std::int32_t> ids = tokenizer->encode(kText);
  for (const std::int32_t id : ids) {
    require(id >= 0 && id < tokenizer->vocabulary(), "numbers are in the vocabulary");
  }
  require(tokenizer->decode(ids) == kText, "the text comes back");
}

std::vector<Bytes> seeds() {
  return {bytes_of(text::train_bpe(std::string(kText) + std::string(kText), 270)),
          with_expression(R"(\\p{L}+|\\d{1,3}| ?[^\\s\\p{L}]+[\\r\\n]*|\\s+(?!\\S)|\\s)"),
          with_expression(R"((?i:'s|'t)|\\w+|[\\x{41}-\\x{5a}]|(?<=a)b|\\p{Han})")};
}

}  // namespace mezzo::fuzz
