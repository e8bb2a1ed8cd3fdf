// TokenSet: a text as a sequence of numbers, in a file that is never read whole.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "mezzo/io/mapped_file.h"

namespace mezzo::data {

// How a token is stored: in so many bytes, an unsigned number, least significant byte first.
enum class TokenWidth : std::uint8_t { kU8 = 1, kU16 = 2, kU32 = 4 };

// Consecutive tokens of a file, numbered from 0. Reading is const and may happen on several threads
// at once.
class TokenSet {
 public:
  struct Part {
    std::shared_ptr<const io::MappedFile> file{};
    TokenWidth width = TokenWidth::kU8;
    std::size_t begin = 0;        // the byte of the file at which the set begins
    std::int64_t size = 0;        // in tokens
    std::int64_t vocabulary = 0;  // tokens are below it; 0: they may be any number
    std::string name{};           // in messages; the file's path, and which part of it
  };

  // The first 16 million tokens are looked at now, since a file of another tokenizer shows there;
  // the others when they are read. Throws FileError for a token that is not in the vocabulary.
  explicit TokenSet(Part part);

  std::int64_t size() const { return part_.size; }
  TokenWidth width() const { return part_.width; }
  const std::string& name() const { return part_.name; }
  // The part of the file that the set is.
  std::span<const std::byte> bytes() const;

  // Writes the tokens from `first` on to `out`; `first` + out.size() must not be above size().
  // Throws FileError, with its place, for a token that is not in the vocabulary.
  void read(std::int64_t first, std::span<std::int64_t> out) const;

 private:
  void check_beginning() const;

  Part part_;
};

}  // namespace mezzo::data
