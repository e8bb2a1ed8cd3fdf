// A section of a page: a title with an id, sentences that say how to read it, and parts.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace mezzo::report {

// A part of a section, with a heading one level below the section's, or without any.
struct Part {
  std::string title{};
  std::string html{};
};

// What a section shows, without the level of its headings and the prefix of its id, which depend on
// the page. A function `Section NAME_section(const RunData&)` makes one of a run's page:
// sections/sections.h lists them, and page.cpp has their order.
struct Section {
  std::string id{};     // `loss-scale`: lower case, unique among the sections of a run
  std::string title{};  // plain text, like the introduction
  std::string intro{};
  std::vector<Part> parts{};  // without any, the page leaves the section out

  // Adds a part, unless there is nothing in it.
  void add(std::string part_title, std::string html);
  void add(std::string html) { add({}, std::move(html)); }
};

// Where on a page the sections of a run stand.
struct Place {
  std::string prefix{};  // of ids: empty for the only run of a page, or `run-2-`
  int level = 2;         // of the sections' headings
};

// The id of the section on its page: `run-2-loss-scale`.
std::string id_of(const Section& section, const Place& place);

// The section; empty if it has no parts.
std::string to_html(const Section& section, const Place& place);

}  // namespace mezzo::report
