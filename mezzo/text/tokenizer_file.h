// The file of a tokenizer as bytes, for those who keep a copy of it.
#pragma once

#include <memory>
#include <string>

#include "mezzo/text/tokenizer.h"

namespace mezzo::text {

struct TokenizerFile {
  std::string bytes{};
  bool is_json = false;  // a tokenizer.json, otherwise a model of SentencePiece
};

// Throws FileError if it cannot be read, is empty, or larger than any tokenizer.
TokenizerFile read_tokenizer_file(const std::string& path);

// The tokenizer that it describes. `source` names it in errors. Throws what read_tokenizer()
// throws.
std::unique_ptr<Tokenizer> make_tokenizer(const TokenizerFile& file, const std::string& source);

}  // namespace mezzo::text
