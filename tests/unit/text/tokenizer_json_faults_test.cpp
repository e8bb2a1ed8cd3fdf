// Tests that each fault of a tokenizer.json, and each thing that is not supported, is named.
#include <functional>

#include <gmock/gmock.h>

#include "tests/unit/message_of.h"
#include "tests/unit/text/small_tokenizer.h"

namespace mezzo::text {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

struct Fault {
  const char* message;
  std::function<void(Json&)> make;
};

void expect_refused(const std::string& text, const char* message) {
  EXPECT_THAT(
      message_of<FileError>(
          [&] { static_cast<void>(parse_tokenizer_json(text, "dir/tokenizer.json")); }),
      AllOf(StartsWith("[text] dir/tokenizer.json"), HasSubstr(message), Not(HasSubstr("\n"))))
      << text.substr(0, 100);
}

void expect_refused(const std::vector<Fault>& faults) {
  for (const Fault& fault : faults) {
    Json json = tokenizer_json({{"a", "b"}});
    json["added_tokens"] = {added_json(257, "<|endoftext|>")};
    fault.make(json);
    expect_refused(json.dump(), fault.message);
  }
}

TEST(TokenizerJsonFaults, OfTheText) {
  expect_refused("{\"model\": ", ": not JSON, at byte 11. Copy or download the file again");
  expect_refused("{\"a\": 1e999}", ": not JSON");
  expect_refused("{}x", ": not JSON, at byte 3");
  expect_refused("{\"\xff\"}", " is not UTF-8: byte 2 is 255");
  expect_refused("[]", "it is not a JSON object");
  expect_refused("{}", "`model` is missing, or no object");
}

TEST(TokenizerJsonFaults, OfTheModel) {
  expect_refused({
      {"its model is WordPiece, mezzo supports BPE",
       [](Json& j) { j["model"]["type"] = "WordPiece"; }},
      {"its model is of no type", [](Json& j) { j["model"].erase("type"); }},
      {"its model has the dropout 0.1, which mezzo does not support",
       [](Json& j) { j["model"]["dropout"] = 0.1; }},
      {"its model has the end_of_word_suffix '</w>'",
       [](Json& j) { j["model"]["end_of_word_suffix"] = "</w>"; }},
      {"its model has the continuing_subword_prefix '##'",
       [](Json& j) { j["model"]["continuing_subword_prefix"] = "##"; }},
      {"its model has byte_fallback", [](Json& j) { j["model"]["byte_fallback"] = true; }},
      {"`byte_fallback` is 1, neither true nor false",
       [](Json& j) { j["model"]["byte_fallback"] = 1; }},
      {"`vocab` is missing, or no object", [](Json& j) { j["model"].erase("vocab"); }},
      {"no token for the byte 97, so it cannot encode every text",
       [](Json& j) {
         j["model"]["vocab"].erase("a");
         j["model"]["vocab"]["aaa"] = 97;
       }},
      {"the token 'ab' has the number 300, but 257 tokens have the numbers 0 to 256",
       [](Json& j) { j["model"]["vocab"]["ab"] = 300; }},
      {"has the number -1,", [](Json& j) { j["model"]["vocab"]["ab"] = -1; }},
      {"has the number '1',", [](Json& j) { j["model"]["vocab"]["ab"] = "1"; }},
      {"two tokens have the number 97", [](Json& j) { j["model"]["vocab"]["ab"] = 97; }},
      {"`merges` is missing, or no list", [](Json& j) { j["model"].erase("merges"); }},
      {"the merge 1 is 'a', expected two tokens",
       [](Json& j) { j["model"]["merges"].push_back("a"); }},
      {"the merge 1 is 'a b c'", [](Json& j) { j["model"]["merges"].push_back("a b c"); }},
      {"the merge 1 is '[1,2]'",
       [](Json& j) {
         j["model"]["merges"].push_back({1, 2});
       }},
      {"the merge 1, 'a c', needs the token 'ac', which the vocabulary lacks",
       [](Json& j) { j["model"]["merges"].push_back("a c"); }},
  });
}

TEST(TokenizerJsonFaults, OfAddedTokens) {
  const auto change = [](const char* name, const Json& value) {
    return [name, value](Json& j) { j["added_tokens"][0][name] = value; };
  };
  expect_refused({
      {"`added_tokens` is missing, or no list", [](Json& j) { j["added_tokens"] = 1; }},
      {"an added token is 7, no object", [](Json& j) { j["added_tokens"] = {7}; }},
      {"`content` is missing, or no text", change("content", nullptr)},
      {"an added token has no text", change("content", "")},
      {"'<|endoftext|>' has single_word, which mezzo does not support",
       change("single_word", true)},
      {"'<|endoftext|>' has lstrip", change("lstrip", true)},
      {"'<|endoftext|>' has rstrip", change("rstrip", true)},
      {"'<|endoftext|>' has the number 3, which is another token's", change("id", 3)},
      {"'<|endoftext|>' has the number 258, but 258 tokens", change("id", 258)},
      {"'ab' has the number 257", change("content", "ab")},
      {"'\u0120x' stands for other bytes in the vocabulary",
       [](Json& j) {
         j["model"]["vocab"]["\u0120x"] = 257;
         j["added_tokens"][0]["content"] = "\u0120x";
       }},
      {"two added tokens have the number 257",
       [](Json& j) { j["added_tokens"].push_back(added_json(257, "b<")); }},
  });
}

TEST(TokenizerJsonFaults, OfTheSteps) {
  const auto split = [](const Json& change) {
    return [change](Json& j) {
      Json step = {{"type", "Split"}, {"pattern", {{"Regex", "a+"}}}, {"behavior", "Isolated"}};
      step.update(change);
      j["pre_tokenizer"] = {{"type", "Sequence"}, {"pretokenizers", {step, j["pre_tokenizer"]}}};
    };
  };
  expect_refused({
      {"its normalizer is NFC, and mezzo supports none",
       [](Json& j) {
         j["normalizer"] = {{"type", "NFC"}};
       }},
      {"its normalizer is 'x'", [](Json& j) { j["normalizer"] = "x"; }},
      {"its decoder is WordPiece, mezzo supports ByteLevel",
       [](Json& j) {
         j["decoder"] = {{"type", "WordPiece"}};
       }},
      {"its pre_tokenizer is null", [](Json& j) { j["pre_tokenizer"] = nullptr; }},
      {"its pre_tokenizer is Whitespace, mezzo supports ByteLevel",
       [](Json& j) {
         j["pre_tokenizer"] = {{"type", "Whitespace"}};
       }},
      {"its pre_tokenizer has add_prefix_space",
       [](Json& j) { j["pre_tokenizer"]["add_prefix_space"] = true; }},
      {"its pre_tokenizer is an empty Sequence",
       [](Json& j) {
         j["pre_tokenizer"] = {{"type", "Sequence"}, {"pretokenizers", Json::array()}};
       }},
      {"its pre_tokenizer has Digits before the last step", split({{"type", "Digits"}})},
      {"a Split whose behavior is 'Removed', mezzo supports Isolated",
       split({{"behavior", "Removed"}})},
      {"a Split whose behavior is 'Isolated' and inverted", split({{"invert", true}})},
      {"`pattern` is missing, or no object", split({{"pattern", "a"}})},
      {"`Regex` is missing, or no text", split({{"pattern", {{"Other", "a"}}}})},
      {"the regular expression '^a': mezzo does not support '^' in it",
       split({{"pattern", {{"Regex", "^a"}}}})},
      {"the regular expression '(a': missing closing parenthesis",
       split({{"pattern", {{"Regex", "(a"}}}})},
      {"the regular expression '': it matches the empty text, too",
       split({{"pattern", {{"String", ""}}}})},
  });
}

}  // namespace
}  // namespace mezzo::text
