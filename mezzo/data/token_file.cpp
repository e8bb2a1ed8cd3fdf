#include "mezzo/data/token_file.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include "mezzo/core/error.h"

namespace mezzo::data {
namespace {

constexpr std::string_view kTextOp = "text";
constexpr std::string_view kTokensOp = "tokens";
constexpr std::size_t kHeaderBytes = 256 * sizeof(std::int32_t);

// A kind of header, by its first two numbers.
struct HeaderKind {
  std::int32_t magic;
  std::int32_t version;
  bool may_be_u16;
};
constexpr HeaderKind kHeaders[] = {{20240520, 1, true}, {20240801, 7, false}};

using File = std::shared_ptr<const io::MappedFile>;

File map_file(const std::string& path, std::string_view op, const char* what) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) {
    fail<FileError>(op, path, ": is a folder. Name ", what);
  }
  File file = std::make_shared<io::MappedFile>(path, op);
  if (file->bytes().empty()) {
    fail<FileError>(op, path, ": is empty. Check that this is the right file");
  }
  return file;
}

std::int32_t number_at(const File& file, std::size_t place) {
  std::int32_t number = 0;
  std::memcpy(&number, file->bytes().data() + place * sizeof(number), sizeof(number));
  return number;
}

// Null for a file without a header. Raw files do not begin with these numbers: as u16 they would be
// token 55,432 or 55,713, and GPT-2's tokenizer, whose files are raw, has 50,257.
const HeaderKind* header_of(const File& file) {
  if (file->bytes().size() < sizeof(std::int32_t)) return nullptr;
  const std::int32_t magic = number_at(file, 0);
  const auto* const found = std::ranges::find(kHeaders, magic, &HeaderKind::magic);
  return found != std::end(kHeaders) ? found : nullptr;
}

// The width of the tokens after a header that counts them.
TokenWidth width_after(const File& file, const HeaderKind& kind) {
  const std::size_t size = file->bytes().size();
  if (size < kHeaderBytes) {
    fail<FileError>(kTokensOp, file->path(), ": short file: it ends within its header of ",
                    kHeaderBytes, " bytes", kCopyAgain);
  }
  if (number_at(file, 1) != kind.version) {
    fail<FileError>(kTokensOp, file->path(), ": the header is of version ", number_at(file, 1),
                    ", expected ", kind.version, ". Write the file anew");
  }
  const std::int64_t count = number_at(file, 2);
  const auto left = static_cast<std::int64_t>(size - kHeaderBytes);
  if (count > 0 && left == 2 * count && kind.may_be_u16) return TokenWidth::kU16;
  if (count > 0 && left == 4 * count) return TokenWidth::kU32;
  fail<FileError>(kTokensOp, file->path(), ": the header counts ", count, " tokens, and ", left,
                  " bytes follow it, expected ", kind.may_be_u16 ? "2 or 4" : "4", " for each",
                  kCopyAgain);
}

// Text in u16 would have token 0 at every second place.
bool looks_like_u32(std::span<const std::byte> bytes) {
  constexpr std::size_t kLooked = 1024;
  constexpr std::size_t kFewest = 16;  // fewer numbers say too little
  const std::size_t numbers = std::min(bytes.size() / 4, kLooked);
  if (bytes.size() % 4 != 0 || numbers < kFewest) return false;
  for (std::size_t i = 0; i < numbers; ++i) {
    if (bytes[4 * i + 2] != std::byte{0} || bytes[4 * i + 3] != std::byte{0}) return false;
  }
  return true;
}

TokenWidth width_of_raw(const File& file, std::int64_t vocabulary) {
  constexpr std::int64_t kMostInU16 = 65'536;
  const std::size_t size = file->bytes().size();
  const bool is_u32 = vocabulary > kMostInU16 || looks_like_u32(file->bytes());
  const std::size_t width = is_u32 ? 4 : 2;
  if (size % width != 0) {
    fail<FileError>(kTokensOp, file->path(), ": has ", size, " bytes, which is no whole number of ",
                    is_u32 ? "u32" : "u16", " tokens", kCopyAgain);
  }
  return is_u32 ? TokenWidth::kU32 : TokenWidth::kU16;
}

}  // namespace

std::unique_ptr<TokenSet> open_text(const std::string& path, Split split, std::int64_t vocabulary) {
  File file = map_file(path, kTextOp, "a file");
  const auto all = static_cast<std::int64_t>(file->bytes().size());
  const std::int64_t tested = all / 10;
  const bool is_train = split == Split::kTrain;
  if (!is_train && tested == 0) {
    fail<FileError>(kTextOp, path, ": has ", all,
                    " bytes, so that its last tenth, which is for testing, is empty. Use a longer "
                    "text");
  }
  return std::make_unique<TokenSet>(TokenSet::Part{
      .file = std::move(file),
      .begin = static_cast<std::size_t>(is_train ? 0 : all - tested),
      .size = is_train ? all - tested : tested,
      .vocabulary = vocabulary,
      .name = concat(path, is_train ? " (all but the last tenth)" : " (its last tenth)")});
}

std::unique_ptr<TokenSet> open_token_file(const std::string& path, std::int64_t vocabulary) {
  File file = map_file(path, kTokensOp, "a file");
  const HeaderKind* const header = header_of(file);
  const TokenWidth width =
      header != nullptr ? width_after(file, *header) : width_of_raw(file, vocabulary);
  const std::size_t begin = header != nullptr ? kHeaderBytes : 0;
  const std::size_t size = (file->bytes().size() - begin) / static_cast<std::size_t>(width);
  return std::make_unique<TokenSet>(TokenSet::Part{.file = std::move(file),
                                                   .width = width,
                                                   .begin = begin,
                                                   .size = static_cast<std::int64_t>(size),
                                                   .vocabulary = vocabulary,
                                                   .name = path});
}

std::unique_ptr<TokenSet> open_token_folder(const std::string& folder, Split split,
                                            std::int64_t vocabulary) {
  std::error_code ignored;
  if (!std::filesystem::is_directory(folder, ignored)) {
    fail<FileError>(kTokensOp, folder, ": there is no such folder. Check the path");
  }
  const char* const name = split == Split::kTrain ? "train.bin" : "val.bin";
  const std::string path = (std::filesystem::path(folder) / name).string();
  if (!std::filesystem::exists(path, ignored)) {
    fail<FileError>(kTokensOp, path,
                    ": there is no such file. A folder of tokens holds train.bin and val.bin");
  }
  return open_token_file(path, vocabulary);
}

}  // namespace mezzo::data
