// One line of a program's text, read from left to right.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "mezzo/core/error.h"

namespace mezzo::graph {

class LineScanner {
 public:
  LineScanner(std::string_view line, std::size_t number) : rest_(line), number_(number) {}

  bool at_end() const { return rest_.empty(); }

  // Consumes exactly that text if it is next.
  bool take(std::string_view token) {
    if (!rest_.starts_with(token)) return false;
    rest_.remove_prefix(token.size());
    return true;
  }
  void need(std::string_view token) {
    if (!take(token)) expected(concat("\"", token, "\""));
  }

  // Reads up to one of the characters `stops`, or to the end; at least one character.
  std::string_view word(std::string_view stops, std::string_view what) {
    const std::string_view found = rest_.substr(0, rest_.find_first_of(stops));
    if (found.empty()) expected(what);
    rest_.remove_prefix(found.size());
    return found;
  }

  // Reads up to and including the character `last`.
  std::string_view through(char last, std::string_view what) {
    const std::size_t end = rest_.find(last);
    if (end == std::string_view::npos) expected(what);
    const std::string_view found = rest_.substr(0, end + 1);
    rest_.remove_prefix(end + 1);
    return found;
  }

  // Reads a quoted text, as to_text() writes it.
  std::string quoted() {
    need("\"");
    std::string text;
    while (!take("\"")) text += next_of_quoted();
    return text;
  }

  [[noreturn]] void expected(std::string_view what) const {
    stop(concat("expected ", what, ", found ",
                at_end() ? "the end of the line" : concat("\"", rest_, "\"")));
  }
  // Throws ArgumentError naming the line.
  [[noreturn]] void stop(std::string_view fault) const {
    fail("program", "line ", number_, ": ", fault);
  }

 private:
  char next_of_quoted() {
    const bool is_escaped = take("\\");
    if (at_end()) expected("the closing quote");
    const char c = rest_.front();
    rest_.remove_prefix(1);
    return is_escaped && c == 'n' ? '\n' : c;
  }

  std::string_view rest_;
  std::size_t number_;
};

}  // namespace mezzo::graph
