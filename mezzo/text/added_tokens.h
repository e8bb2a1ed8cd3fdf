// Tokens that are found in the text itself, before it is divided into words.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace mezzo::text {

struct AddedToken {
  std::int32_t id = 0;
  std::string text{};  // never empty
  // Tokens for which this is true are looked for where the others are not: in the text between
  // them.
  bool later = false;
};

// Finds tokens in a text. Of those that begin at the same byte, the longest counts.
class AddedTokens {
 public:
  explicit AddedTokens(std::vector<AddedToken> tokens);

  struct Found {
    std::size_t begin;
    std::size_t end;
    std::int32_t id;
  };
  // The first that begins at `from` or later.
  std::optional<Found> find(std::string_view text, std::size_t from) const;

 private:
  std::vector<AddedToken> tokens_;  // by their first byte, the longest first
  // Those that begin with a byte: from `firsts_[byte]` to before `firsts_[byte + 1]`.
  std::array<std::size_t, 257> firsts_{};
};

}  // namespace mezzo::text
