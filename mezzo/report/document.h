// A whole HTML document: what every page has around its sections. It needs no scripts and nothing
// from elsewhere.
#pragma once

#include <string>
#include <vector>

#include "mezzo/report/contents.h"
#include "mezzo/report/section.h"

namespace mezzo::report {

struct Document {
  std::string title{};
  std::string kind{};  // of page, above the title: `mezzo training report`
  std::string tab{};   // what the browser's tab says; empty: the title
  std::string status{};
  bool is_live = false;  // browsers load it anew every five seconds
  std::string style{};   // rules of this kind of page, after those of every page
  std::vector<Entry> entries{};
  std::string html{};  // the sections

  // Adds the sections that have parts, with entries in the table of contents.
  void add(const std::vector<Section>& sections, const Place& place);
};

// The document, with a header, the table of contents and a link that skips both.
std::string to_html(const Document& document);

}  // namespace mezzo::report
