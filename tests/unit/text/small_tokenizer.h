// A tokenizer.json of 256 bytes and a few merges.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "mezzo/text/byte_alphabet.h"
#include "mezzo/text/tokenizer_json.h"

namespace mezzo::text {

using Json = nlohmann::json;

// A special token as the package writes it.
inline Json added_json(int id, const std::string& content, bool special = true) {
  return {{"id", id},        {"content", content},     {"single_word", false}, {"lstrip", false},
          {"rstrip", false}, {"normalized", !special}, {"special", special}};
}

// The token of a byte has its number; the n-th merge of these pairs makes the token 256 + n. The
// vocabulary has no other tokens.
inline Json tokenizer_json(const std::vector<std::pair<std::string, std::string>>& merges) {
  Json vocabulary = Json::object();
  for (unsigned byte = 0; byte < 256; ++byte) {
    const char character = static_cast<char>(byte);
    vocabulary[in_alphabet({&character, 1})] = byte;
  }
  Json list = Json::array();
  for (const auto& [left, right] : merges) {
    list.push_back(left + " " + right);
    if (!vocabulary.contains(left + right)) vocabulary[left + right] = vocabulary.size();
  }
  return {{"version", "1.0"},
          {"added_tokens", Json::array()},
          {"normalizer", nullptr},
          {"pre_tokenizer", {{"type", "ByteLevel"}, {"add_prefix_space", false}}},
          {"post_processor", nullptr},
          {"decoder", {{"type", "ByteLevel"}}},
          {"model", {{"type", "BPE"}, {"vocab", vocabulary}, {"merges", list}}}};
}

inline std::unique_ptr<Tokenizer> tokenizer_of(const Json& json) {
  return parse_tokenizer_json(json.dump(), "tokenizer.json");
}

}  // namespace mezzo::text
