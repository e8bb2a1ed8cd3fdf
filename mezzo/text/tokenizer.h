// Text as numbers, and back.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "mezzo/core/function_ref.h"

namespace mezzo::text {

// Takes the numbers of the next part of a text.
using TakeIds = FunctionRef<void(std::span<const std::int32_t>)>;

// Divides text into tokens, which have numbers from 0 to vocabulary() - 1. Several threads may use
// one tokenizer at the same time.
//
// Text is UTF-8. What is not is refused by an ArgumentError `[text] ... byte N ...`.
class Tokenizer {
 public:
  Tokenizer() = default;
  Tokenizer(const Tokenizer&) = delete;
  Tokenizer& operator=(const Tokenizer&) = delete;
  virtual ~Tokenizer() = default;

  // The numbers of the text, and of nothing else: no token is put before or after it. The text of a
  // special token, such as <|endoftext|>, becomes that token.
  virtual std::vector<std::int32_t> encode(std::string_view text) const = 0;

  // Encodes the text of a file, and hands over its numbers a part at a time, so that no more memory
  // is taken than one part needs. Of byte-level BPE they are those of encode(). SentencePiece takes
  // a line for a sentence and drops its end; so the lines that are not empty are encoded one by
  // one, and after each of them comes its model's end of a sentence, if it has one.
  virtual void encode_file_text(std::string_view text, TakeIds take) const = 0;

  // The text of the tokens. Byte-level BPE gives exactly what was encoded; SentencePiece what its
  // model has made of it. Of a part of the numbers of a text it may begin or end within a
  // character. Throws ArgumentError for a number that no token has.
  virtual std::string decode(std::span<const std::int32_t> ids) const = 0;

  // The number of tokens.
  virtual std::int64_t vocabulary() const = 0;

  // The number of the token with exactly this text, ` the` for example; nothing if there is none.
  // SentencePiece writes a space as U+2581.
  virtual std::optional<std::int32_t> id_of(std::string_view token) const = 0;
};

// Reads a `tokenizer.json` of Hugging Face's tokenizers, or a model of SentencePiece; the file's
// first bytes say which it is. Of tokenizer.json, byte-level BPE is supported; docs/text.md says
// what that means. Throws FileError for anything else, with the name of what is not supported, and
// DeviceError for a model of SentencePiece where its library cannot be loaded.
std::unique_ptr<Tokenizer> read_tokenizer(const std::string& path);

}  // namespace mezzo::text
