#include "mezzo/report/section.h"

#include <utility>

#include "mezzo/core/error.h"
#include "mezzo/report/html.h"

namespace mezzo::report {

void Section::add(std::string part_title, std::string html) {
  if (!html.empty()) parts.push_back({.title = std::move(part_title), .html = std::move(html)});
}

std::string id_of(const Section& section, const Place& place) { return place.prefix + section.id; }

std::string to_html(const Section& section, const Place& place) {
  if (section.parts.empty()) return {};
  std::string html = concat("<section id=\"", id_of(section, place), "\">\n",
                            element(concat("h", place.level), section.title));
  if (!section.intro.empty()) html += note(section.intro);
  for (const Part& part : section.parts) {
    if (!part.title.empty()) html += element(concat("h", place.level + 1), part.title);
    html += part.html;
  }
  return html + "</section>\n";
}

}  // namespace mezzo::report
