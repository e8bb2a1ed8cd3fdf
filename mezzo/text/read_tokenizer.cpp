#include "mezzo/io/source.h"
#include "mezzo/text/checked_text.h"
#include "mezzo/text/sentencepiece.h"
#include "mezzo/text/tokenizer.h"
#include "mezzo/text/tokenizer_file.h"
#include "mezzo/text/tokenizer_json.h"

namespace mezzo::text {
namespace {

// Many times as much as the largest tokenizer has: what is larger is another file.
constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 28U;

std::string read_bytes(const std::string& path) {
  io::FileSource source(path, kTextOp);
  if (source.size() == 0) {
    fail<FileError>(kTextOp, path, ": the file is empty", kCopyAgain);
  }
  if (source.size() > kMostBytes) {
    fail<FileError>(kTextOp, path, ": not a tokenizer: it has ", source.size(), " bytes, at most ",
                    kMostBytes, " are allowed. Check that this is the right file");
  }
  std::string bytes(static_cast<std::size_t>(source.size()), '\0');
  source.read(std::as_writable_bytes(std::span(bytes)));
  return bytes;
}

}  // namespace

TokenizerFile read_tokenizer_file(const std::string& path) {
  TokenizerFile file{.bytes = read_bytes(path)};
  // A model of SentencePiece begins with a line feed, the mark of its first piece, and with how
  // many bytes of that piece follow: to be taken for white space and a brace, it would have to have
  // 123.
  const std::size_t first = file.bytes.find_first_not_of(" \t\r\n");
  file.is_json = first != std::string::npos && file.bytes[first] == '{';
  return file;
}

std::unique_ptr<Tokenizer> make_tokenizer(const TokenizerFile& file, const std::string& source) {
  return file.is_json ? parse_tokenizer_json(file.bytes, source)
                      : parse_sentencepiece(file.bytes, source);
}

std::unique_ptr<Tokenizer> read_tokenizer(const std::string& path) {
  return make_tokenizer(read_tokenizer_file(path), path);
}

}  // namespace mezzo::text
