#include "mezzo/text/added_tokens.h"

#include <algorithm>
#include <utility>

namespace mezzo::text {
namespace {

std::size_t first_byte(const AddedToken& token) {
  return static_cast<unsigned char>(token.text.front());
}

}  // namespace

AddedTokens::AddedTokens(std::vector<AddedToken> tokens) : tokens_(std::move(tokens)) {
  std::ranges::sort(tokens_, [](const AddedToken& a, const AddedToken& b) {
    if (first_byte(a) != first_byte(b)) return first_byte(a) < first_byte(b);
    return a.text.size() > b.text.size();
  });
  for (const AddedToken& token : tokens_) ++firsts_[first_byte(token) + 1];
  for (std::size_t byte = 1; byte < firsts_.size(); ++byte) firsts_[byte] += firsts_[byte - 1];
}

std::optional<AddedTokens::Found> AddedTokens::find(std::string_view text, std::size_t from) const {
  if (tokens_.empty()) return std::nullopt;
  for (std::size_t begin = from; begin < text.size(); ++begin) {
    const std::size_t byte = static_cast<unsigned char>(text[begin]);
    for (std::size_t i = firsts_[byte]; i < firsts_[byte + 1]; ++i) {
      if (!text.substr(begin).starts_with(tokens_[i].text)) continue;
      return Found{begin, begin + tokens_[i].text.size(), tokens_[i].id};
    }
  }
  return std::nullopt;
}

}  // namespace mezzo::text
