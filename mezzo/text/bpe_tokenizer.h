// Byte-level BPE as a Tokenizer.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "mezzo/text/added_tokens.h"
#include "mezzo/text/bpe_model.h"
#include "mezzo/text/regex.h"
#include "mezzo/text/tokenizer.h"

namespace mezzo::text {

// What a tokenizer.json says.
struct BpeParts {
  BpeVocabulary vocabulary{};
  std::vector<AddedToken> added{};  // their numbers are in the vocabulary or follow it
  // Tokens of the vocabulary that stand for their own text, since it is not in the byte alphabet.
  std::vector<AddedToken> verbatim{};
  std::vector<Regex> splits{};
};

class BpeTokenizer final : public Tokenizer {
 public:
  explicit BpeTokenizer(BpeParts parts);

  std::vector<std::int32_t> encode(std::string_view text) const override;
  void encode_file_text(std::string_view text, TakeIds take) const override;
  std::string decode(std::span<const std::int32_t> ids) const override;
  std::int64_t vocabulary() const override { return static_cast<std::int64_t>(texts_.size()); }
  std::optional<std::int32_t> id_of(std::string_view token) const override;

 private:
  class Encoding;

  BpeModel model_;
  AddedTokens first_;
  AddedTokens later_;
  std::vector<Regex> splits_;
  std::vector<std::string> texts_;                               // of each token, by its number
  std::unordered_map<std::string_view, std::int32_t> own_text_;  // of tokens beside the model's
};

}  // namespace mezzo::text
