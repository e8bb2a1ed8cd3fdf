#include "mezzo/data/token_set.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "mezzo/core/error.h"

namespace mezzo::data {
namespace {

// Copied byte by byte, since a file may be cut anywhere, so that numbers need not be aligned.
template <class Number>
void widen(const std::byte* from, std::span<std::int64_t> out) {
  for (std::size_t i = 0; i < out.size(); ++i) {
    Number number = 0;
    std::memcpy(&number, from + i * sizeof(Number), sizeof(Number));
    out[i] = static_cast<std::int64_t>(number);
  }
}

std::size_t bytes_of(TokenWidth width) { return static_cast<std::size_t>(width); }

// The largest number that can be stored, and one more.
std::int64_t numbers_of_width(TokenWidth width) { return std::int64_t{1} << (8 * bytes_of(width)); }

}  // namespace

TokenSet::TokenSet(Part part) : part_(std::move(part)) { check_beginning(); }

std::span<const std::byte> TokenSet::bytes() const {
  const auto size = static_cast<std::size_t>(part_.size);
  return part_.file->bytes().subspan(part_.begin, size * bytes_of(part_.width));
}

void TokenSet::read(std::int64_t first, std::span<std::int64_t> out) const {
  MEZZO_INVARIANT(first >= 0 && first + std::ssize(out) <= part_.size);
  const std::byte* const from =
      bytes().data() + static_cast<std::size_t>(first) * bytes_of(part_.width);
  switch (part_.width) {
    case TokenWidth::kU8: widen<std::uint8_t>(from, out); break;
    case TokenWidth::kU16: widen<std::uint16_t>(from, out); break;
    case TokenWidth::kU32: widen<std::uint32_t>(from, out); break;
  }
  if (part_.vocabulary == 0) return;
  const auto bad =
      std::ranges::find_if(out, [this](std::int64_t token) { return token >= part_.vocabulary; });
  if (bad == out.end()) return;
  fail<FileError>("tokens", part_.name, ": token ", first + (bad - out.begin()), " is ", *bad,
                  ", and the model's vocabulary has ", part_.vocabulary,
                  ". Use tokens of the model's tokenizer, or a model with a larger vocabulary");
}

void TokenSet::check_beginning() const {
  if (part_.vocabulary == 0 || part_.vocabulary >= numbers_of_width(part_.width)) return;
  constexpr std::int64_t kMost = std::int64_t{1} << 24;
  constexpr std::int64_t kAtOnce = 4096;
  const std::int64_t end = std::min(part_.size, kMost);
  std::vector<std::int64_t> tokens(kAtOnce);
  for (std::int64_t first = 0; first < end; first += kAtOnce) {
    read(first, std::span(tokens).first(static_cast<std::size_t>(std::min(kAtOnce, end - first))));
  }
}

}  // namespace mezzo::data
