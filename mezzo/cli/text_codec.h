// Makes tokens of text, and text of tokens.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace mezzo::cli {

class TextCodec {
 public:
  virtual ~TextCodec() = default;

  virtual std::vector<std::int64_t> encode(const std::string& text) const = 0;
  // Bytes, which need not be whole characters.
  virtual std::string decode(const std::vector<std::int64_t>& tokens) const = 0;
};

// That of a tokenizer's file; without one, every byte is a token. Throws ArgumentError if the file
// has more tokens than the model's vocabulary, and, without a file, unless that is 256.
std::unique_ptr<TextCodec> make_codec(const std::string& tokenizer, std::int64_t vocabulary);

}  // namespace mezzo::cli
