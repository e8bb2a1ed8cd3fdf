// A checker of markup: every tag is closed in order, all text is escaped, no number is missing.
#pragma once

#include <cctype>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

namespace mezzo::report {

// The first fault of a page or a drawing; empty if there is none.
inline std::string markup_fault(std::string_view text) {
  std::vector<std::string> open;
  std::size_t at = 0;
  while (at < text.size()) {
    const std::size_t begin = text.find('<', at);
    const std::string_view between = text.substr(at, begin - at);
    const bool is_style = !open.empty() && open.back() == "style";
    if (!is_style && between.find('>') != std::string_view::npos) {
      return "a stray > in " + std::string(between);
    }
    if (begin == std::string_view::npos) break;
    const std::size_t end = text.find('>', begin);
    if (end == std::string_view::npos) return "a tag without an end";
    const std::string_view tag = text.substr(begin + 1, end - begin - 1);
    at = end + 1;
    if (tag.find('<') != std::string_view::npos) return "< within " + std::string(tag);
    if (tag.starts_with('!') || tag.ends_with('/')) continue;
    const std::string name(tag.substr(0, tag.find_first_of(" \n")));
    if (!tag.starts_with('/')) {
      open.push_back(name);
    } else if (open.empty() || "/" + open.back() != name) {
      return "<" + name + "> closes nothing that is open";
    } else {
      open.pop_back();
    }
  }
  return open.empty() ? "" : "<" + open.back() + "> is not closed";
}

// True if a coordinate in a drawing is not a number.
inline bool has_bad_coordinates(std::string_view svg) {
  for (const char* bad : {"nan", "inf"}) {
    for (std::size_t at = svg.find(bad); at != std::string_view::npos; at = svg.find(bad, at + 1)) {
      // Only within an attribute, since a text may legitimately be nan.
      const std::size_t tag = svg.find_last_of("<>", at);
      if (tag != std::string_view::npos && svg[tag] == '<') return true;
    }
  }
  return false;
}

inline void expect_sound(const std::string& markup) {
  EXPECT_EQ(markup_fault(markup), "");
  EXPECT_FALSE(has_bad_coordinates(markup)) << markup;
}

inline std::size_t count_of_text(std::string_view text, std::string_view what) {
  std::size_t count = 0;
  for (std::size_t at = text.find(what); at != std::string_view::npos;
       at = text.find(what, at + what.size())) {
    ++count;
  }
  return count;
}

}  // namespace mezzo::report
