#include <nlohmann/json.hpp>

#include "mezzo/text/byte_alphabet.h"
#include "mezzo/text/tokenizer_json.h"

namespace mezzo::text {
namespace {

// Unlike std::map's, its members stay in the order in which they were added.
using OrderedJson = nlohmann::ordered_json;

OrderedJson byte_level() {
  // `trim_offsets` and `add_prefix_space` of a decoder change nothing, but must be there.
  return {{"type", "ByteLevel"},
          {"add_prefix_space", false},
          {"trim_offsets", true},
          {"use_regex", true}};
}

OrderedJson added_token(std::int32_t id, const std::string& text) {
  return {{"id", id},        {"content", text},     {"single_word", false}, {"lstrip", false},
          {"rstrip", false}, {"normalized", false}, {"special", true}};
}

// `"a b"`: the form that every version of the package reads. No token has a space in it.
OrderedJson merges_of(const BpeVocabulary& vocabulary) {
  OrderedJson merges = OrderedJson::array();
  for (const BpeMerge& merge : vocabulary.merges) {
    merges.push_back(in_alphabet(vocabulary.tokens[static_cast<std::size_t>(merge.left)]) + " " +
                     in_alphabet(vocabulary.tokens[static_cast<std::size_t>(merge.right)]));
  }
  return merges;
}

}  // namespace

std::string format_tokenizer_json(const BpeVocabulary& vocabulary,
                                  std::span<const std::int32_t> special) {
  // Members are pushed, not looked up: ordered_json would search all tokens before each.
  OrderedJson::object_t tokens;
  std::int32_t next = 0;
  for (const std::string& token : vocabulary.tokens) {
    tokens.push_back({in_alphabet(token), next++});
  }
  OrderedJson added = OrderedJson::array();
  for (const std::int32_t id : special) {
    added.push_back(added_token(id, vocabulary.tokens[static_cast<std::size_t>(id)]));
  }
  OrderedJson model = {{"type", "BPE"},
                       {"dropout", nullptr},
                       {"unk_token", nullptr},
                       {"continuing_subword_prefix", nullptr},
                       {"end_of_word_suffix", nullptr},
                       {"fuse_unk", false},
                       {"byte_fallback", false},
                       {"ignore_merges", vocabulary.whole_words}};
  model["vocab"] = std::move(tokens);
  model["merges"] = merges_of(vocabulary);
  OrderedJson file = {{"version", "1.0"},          {"truncation", nullptr},
                      {"padding", nullptr},        {"added_tokens", added},
                      {"normalizer", nullptr},     {"pre_tokenizer", byte_level()},
                      {"post_processor", nullptr}, {"decoder", byte_level()}};
  file["model"] = std::move(model);
  return file.dump(1) + "\n";
}

}  // namespace mezzo::text
