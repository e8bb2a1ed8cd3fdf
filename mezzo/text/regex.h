// Regular expressions over UTF-8, by PCRE2.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

// PCRE2's own types, whose header is read by regex.cpp alone.
// NOLINTBEGIN(readability-identifier-naming)
struct pcre2_real_code_8;
struct pcre2_real_match_data_8;
struct pcre2_real_match_context_8;
struct pcre2_real_jit_stack_8;
// NOLINTEND(readability-identifier-naming)

namespace mezzo::text {

// A compiled expression. Several threads may search by one.
class Regex {
 public:
  // In PCRE2's syntax; mezzo/text/pattern.h makes it of that of a tokenizer.json. Throws
  // ArgumentError with PCRE2's words if it is wrong, or if it matches the empty text.
  explicit Regex(const std::string& pattern);
  Regex(const Regex&) = delete;
  Regex& operator=(const Regex&) = delete;
  Regex(Regex&& other) noexcept;
  Regex& operator=(Regex&&) = delete;
  ~Regex();

 private:
  friend class RegexSearch;
  pcre2_real_code_8* code_ = nullptr;
};

// The bytes of a match: from `begin` to before `end`.
struct RegexMatch {
  std::size_t begin;
  std::size_t end;
};

// What one thread needs to search by a Regex, which must outlive it. It is made once for many
// searches.
class RegexSearch {
 public:
  explicit RegexSearch(const Regex& regex);
  RegexSearch(const RegexSearch&) = delete;
  RegexSearch& operator=(const RegexSearch&) = delete;
  RegexSearch(RegexSearch&& other) noexcept;
  RegexSearch& operator=(RegexSearch&&) = delete;
  ~RegexSearch();

  // The first match that begins at `from` or later; it has at least one byte. The text must be
  // UTF-8, which is not checked again. Throws ArgumentError if PCRE2 gives up.
  std::optional<RegexMatch> find(std::string_view text, std::size_t from);

 private:
  const pcre2_real_code_8* code_;
  pcre2_real_match_data_8* data_ = nullptr;
  pcre2_real_match_context_8* context_ = nullptr;
  pcre2_real_jit_stack_8* stack_ = nullptr;
};

}  // namespace mezzo::text
