// What a page must have so that it can be used by the keyboard and by screen readers.
#pragma once

#include <regex>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/unit/report/markup.h"

namespace mezzo::report {

// The first group of every match.
inline std::vector<std::string> groups_of(const std::string& text, const std::string& pattern) {
  const std::regex expression(pattern);
  std::vector<std::string> groups;
  for (std::sregex_iterator at(text.begin(), text.end(), expression), end; at != end; ++at) {
    groups.push_back((*at)[1]);
  }
  return groups;
}

// One h1, and no level that is left out on the way down.
inline void expect_headings_in_order(const std::string& html) {
  int last = 0;
  for (const std::string& level : groups_of(html, "<h([1-6])>")) {
    EXPECT_LE(std::stoi(level), last + 1);
    last = std::stoi(level);
  }
  EXPECT_EQ(count_of_text(html, "<h1>"), 1U);
}

inline void expect_ids_and_links(const std::string& html) {
  const std::vector<std::string> ids = groups_of(html, " id=\"([^\"]*)\"");
  const std::set<std::string> unique(ids.begin(), ids.end());
  EXPECT_EQ(unique.size(), ids.size());
  for (const std::string& target : groups_of(html, "href=\"#([^\"]*)\"")) {
    EXPECT_TRUE(unique.contains(target)) << target;
  }
}

// Every drawing is labelled and described, or is only an ornament beside a text. Those within a
// drawing belong to it.
inline void expect_drawings_described(const std::string& html) {
  const std::size_t all = count_of_text(html, "<svg");
  const std::size_t hidden = count_of_text(html, "aria-hidden=\"true\"");
  const std::size_t within = count_of_text(html, "<svg viewBox=\"0 0 1000");
  const std::size_t images = count_of_text(html, "role=\"img\">\n<title>");
  EXPECT_EQ(all, hidden + within + images);
  EXPECT_EQ(count_of_text(html, "role=\"img\""), images);
  EXPECT_EQ(groups_of(html, "</title>\n<desc>([^<]{10})").size(), images);
}

inline void expect_tables_described(const std::string& html) {
  const std::size_t tables = count_of_text(html, "<table>");
  EXPECT_EQ(groups_of(html, "<table>\n<caption>([^<]{5})").size(), tables);
  EXPECT_EQ(count_of_text(html, "<th>"), 0U) << "without a scope";
}

inline void expect_usable(const std::string& html) {
  EXPECT_EQ(markup_fault(html), "");
  expect_headings_in_order(html);
  expect_ids_and_links(html);
  expect_drawings_described(html);
  expect_tables_described(html);
  for (const char* once : {"<html lang=\"en\">", "<header>", "<main ", "<a class=\"skip\""}) {
    EXPECT_EQ(count_of_text(html, once), 1U) << once;
  }
  EXPECT_EQ(count_of_text(html, "<details>"), count_of_text(html, "<details>\n<summary>"));
  EXPECT_EQ(count_of_text(html, "<img "), count_of_text(html, "<img alt=\""));
}

}  // namespace mezzo::report
