#include "mezzo/text/pattern.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>

#include "mezzo/core/error.h"
#include "mezzo/io/utf8.h"
#include "mezzo/text/checked_text.h"

namespace mezzo::text {
namespace {

// The characters of Unicode's White_Space, within a class. PCRE2's own \s has U+180E besides.
constexpr std::string_view kSpace =
    R"(\x{9}-\x{d}\x{20}\x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000})";
// Of what Oniguruma's \w consists; PCRE2's depends on its version.
constexpr std::string_view kWord = R"(\p{L}\p{M}\p{Nd}\p{Pc})";

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

class Translator {
 public:
  explicit Translator(std::string_view pattern) : rest_(pattern) {}

  std::string run() {
    while (!rest_.empty()) {
      if (in_class_) {
        step_in_class();
      } else {
        step();
      }
    }
    return std::move(result_);
  }

 private:
  [[noreturn]] static void refuse(std::string_view what) {
    fail<ArgumentError>(kTextOp, "mezzo does not support ", io::in_quotes(what), " in it");
  }

  bool begins_with(std::string_view text) const { return rest_.starts_with(text); }
  // Moves `count` bytes over as they are.
  void pass(std::size_t count) {
    result_ += rest_.substr(0, count);
    rest_.remove_prefix(std::min(count, rest_.size()));
  }

  void step() {
    switch (rest_.front()) {
      case '\\': return escape();
      case '[': return begin_class();
      case '(': return group();
      case '{': return repetition();
      case '^':
      case '$': refuse(rest_.substr(0, 1));
      default: return pass(1);
    }
  }

  void step_in_class() {
    if (begins_with("\\")) return escape();
    if (begins_with("[") || begins_with("&&")) refuse(rest_.substr(0, 2));
    in_class_ = rest_.front() != ']';
    pass(1);
  }

  void begin_class() {
    pass(begins_with("[^") ? 2 : 1);
    // Oniguruma takes it for a character, with a warning.
    if (begins_with("]")) refuse("[]");
    in_class_ = true;
  }

  void group() {
    constexpr std::array<std::string_view, 8> kKnown = {"(?:",  "(?=",  "(?!",  "(?>",
                                                        "(?<=", "(?<!", "(?i:", "(?-i:"};
    // Of the verbs of PCRE2, and of names, comments and other switches, nothing is known to be
    // alike.
    if (begins_with("(*")) refuse("(*");
    if (!begins_with("(?")) return pass(1);
    const auto* const known =
        std::ranges::find_if(kKnown, [&](std::string_view text) { return begins_with(text); });
    if (known == kKnown.end()) refuse(rest_.substr(0, 4));
    pass(known->size());
  }

  // {2}, {2,} or {2,3}, without what makes it greedy or not: Oniguruma takes that for another
  // repetition.
  void repetition() {
    const std::size_t end = rest_.find('}');
    const std::string_view inner = rest_.substr(1, end == std::string_view::npos ? end : end - 1);
    const bool is_sound =
        end != std::string_view::npos && !inner.empty() && is_digit(inner[0]) &&
        std::ranges::all_of(inner, [](char c) { return is_digit(c) || c == ','; });
    const std::string_view after = is_sound ? rest_.substr(end + 1) : std::string_view();
    if (!is_sound || after.starts_with('+') || after.starts_with('?')) {
      refuse(rest_.substr(0, is_sound ? end + 2 : 4));
    }
    pass(end + 1);
  }

  void escape() {
    const char c = rest_.size() > 1 ? rest_[1] : '\\';
    if (rest_.size() > 1 && static_cast<unsigned char>(c) < 0x80 && !is_letter(c) && !is_digit(c)) {
      return pass(2);
    }
    switch (c) {
      case 'r':
      case 'n':
      case 't':
      case 'f': return pass(2);
      case 'v': return replace(2, R"(\x{b})");
      case 's': return set(kSpace);
      case 'S': return complement(kSpace);
      case 'w': return set(kWord);
      case 'W': return complement(kWord);
      case 'd': return set(R"(\p{Nd})");
      case 'D': return set(R"(\P{Nd})");
      case 'p':
      case 'P': return property();
      case 'x': return braced_number();
      case 'u': return four_digits();
      default: refuse(rest_.substr(0, 2));
    }
  }

  void replace(std::size_t count, std::string_view text) {
    result_ += text;
    rest_.remove_prefix(count);
  }

  // In place of the next two bytes, a set; it is no end of a range.
  void set(std::string_view content) {
    check_no_range(2);
    if (in_class_) return replace(2, content);
    replace(2, concat("[", content, "]"));
  }

  void complement(std::string_view content) {
    if (in_class_) refuse(concat("[... ", rest_.substr(0, 2)));
    replace(2, concat("[^", content, "]"));
  }

  void check_no_range(std::size_t length) const {
    if (!in_class_) return;
    const bool before = result_.ends_with('-') && !result_.ends_with("[-") &&
                        !result_.ends_with("[^-") && !result_.ends_with(R"(\-)");
    const bool after =
        rest_.substr(length).starts_with('-') && !rest_.substr(length).starts_with("-]");
    if (before || after) refuse(concat("[... - ... ", rest_.substr(0, length)));
  }

  // \p{L}, \p{^L} or \p{Han}. A script is that of the characters themselves, which PCRE2 must be
  // told since it has other ones, too.
  void property() {
    const std::size_t end = rest_.find('}');
    if (rest_.size() < 3 || rest_[2] != '{' || end == std::string_view::npos) {
      refuse(rest_.substr(0, 3));
    }
    check_no_range(end + 1);
    const bool is_negated = rest_.substr(3).starts_with('^');
    const std::string_view name = rest_.substr(is_negated ? 4 : 3, end - (is_negated ? 4 : 3));
    if (name.empty() || !std::ranges::all_of(name, is_letter)) refuse(rest_.substr(0, end + 1));
    const bool is_category = name.size() <= 2 || name == "Any";
    const bool is_complement = (rest_[1] == 'P') != is_negated;
    replace(end + 1,
            concat(is_complement ? R"(\P{)" : R"(\p{)", is_category ? "" : "sc:", name, "}"));
  }

  // \x{1F600}. Two digits without braces are a byte for Oniguruma, and so a character only
  // below 80.
  void braced_number() {
    const std::size_t end = rest_.starts_with(R"(\x{)") ? rest_.find('}') : 4;
    if (end == std::string_view::npos) refuse(rest_.substr(0, 3));
    const bool is_braced = end != 4 || rest_.starts_with(R"(\x{)");
    append_character(is_braced ? rest_.substr(3, end - 3) : rest_.substr(2, 2),
                     is_braced ? 0x10ffff : 0x7f, is_braced ? end + 1 : end);
  }

  void four_digits() { append_character(rest_.substr(2, 4), 0xffff, 6); }

  void append_character(std::string_view digits, std::uint32_t most, std::size_t length) {
    std::uint32_t value = 0;
    const auto [end, error] =
        std::from_chars(digits.data(), digits.data() + digits.size(), value, 16);
    const bool is_number = error == std::errc() && end == digits.data() + digits.size();
    if (!is_number || value > most || rest_.size() < length) refuse(rest_.substr(0, length));
    constexpr std::string_view kDigits = "0123456789abcdef";
    std::string text;
    do {
      text.insert(text.begin(), kDigits[value & 15U]);
      value >>= 4U;
    } while (value != 0);
    replace(length, concat(R"(\x{)", text, "}"));
  }

  std::string_view rest_;
  std::string result_;
  bool in_class_ = false;
};

}  // namespace

std::string for_pcre2(std::string_view pattern) { return Translator(pattern).run(); }

std::string literal_for_pcre2(std::string_view text) {
  std::string pattern;
  for (const char c : text) {
    const bool is_plain = static_cast<unsigned char>(c) >= 0x80 || is_letter(c) || is_digit(c);
    // Control characters, zero among them, stand for themselves after a backslash.
    if (!is_plain) pattern += '\\';
    pattern += c;
  }
  return pattern;
}

}  // namespace mezzo::text
