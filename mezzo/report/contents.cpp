#include "mezzo/report/contents.h"

#include "mezzo/core/error.h"
#include "mezzo/report/text.h"

namespace mezzo::report {
namespace {

std::string link_to(const Entry& entry) {
  return concat("<a href=\"#", entry.id, "\">", escape(entry.title), "</a>");
}

// The entries below are not divided further: a page has runs and their sections.
std::string list_below(const Entry& entry) {
  if (entry.below.empty()) return {};
  std::string html = "\n<ul>\n";
  for (const Entry& one : entry.below) html += concat("<li>", link_to(one), "</li>\n");
  return html + "</ul>\n";
}

}  // namespace

std::vector<Entry> entries_of(const std::vector<Section>& sections, const Place& place) {
  std::vector<Entry> entries;
  for (const Section& section : sections) {
    if (section.parts.empty()) continue;
    entries.push_back({.id = id_of(section, place), .title = section.title});
  }
  return entries;
}

std::string contents(const std::vector<Entry>& entries) {
  if (entries.size() < 2) return {};
  std::string html = "<nav aria-label=\"Contents\">\n<ul>\n";
  for (const Entry& entry : entries) {
    html += concat("<li>", link_to(entry), list_below(entry), "</li>\n");
  }
  return html + "</ul>\n</nav>\n";
}

}  // namespace mezzo::report
