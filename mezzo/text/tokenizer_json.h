// tokenizer.json: the files of Hugging Face's tokenizers.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "mezzo/text/bpe_model.h"
#include "mezzo/text/tokenizer.h"

namespace mezzo::text {

// The tokenizer that such a file describes; docs/text.md lists what is supported. `source` names it
// in errors. Throws FileError, also for what is not supported.
std::unique_ptr<Tokenizer> parse_tokenizer_json(std::string_view text, std::string_view source);

// The file of a tokenizer that divides text as GPT-2's does. `special` are the numbers of special
// tokens, whose text in the vocabulary must be in the byte alphabet.
std::string format_tokenizer_json(const BpeVocabulary& vocabulary,
                                  std::span<const std::int32_t> special);

}  // namespace mezzo::text
