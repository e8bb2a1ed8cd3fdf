#include "mezzo/report/document.h"

#include <utility>

#include "mezzo/core/error.h"
#include "mezzo/report/html.h"
#include "mezzo/report/palette.h"
#include "mezzo/report/style.h"
#include "mezzo/report/text.h"

namespace mezzo::report {
namespace {

std::string document_head(const Document& document) {
  return concat("<head>\n<meta charset=\"utf-8\"/>\n",
                "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n",
                document.is_live ? "<meta http-equiv=\"refresh\" content=\"5\"/>\n" : "",
                element("title", document.tab.empty() ? document.title : document.tab), "<style>",
                kPalette, kStyle, document.style, "</style>\n</head>\n");
}

std::string document_header(const Document& document) {
  std::string html = concat("<header>\n<p class=\"sub\">", escape(document.kind), "</p>\n",
                            element("h1", document.title));
  if (!document.status.empty()) {
    html += concat("<p class=\"", document.is_live ? "status running" : "status", "\">",
                   escape(document.status), "</p>\n");
  }
  return html + "</header>\n";
}

}  // namespace

void Document::add(const std::vector<Section>& sections, const Place& place) {
  for (Entry& entry : entries_of(sections, place)) entries.push_back(std::move(entry));
  for (const Section& section : sections) html += report::to_html(section, place);
}

std::string to_html(const Document& document) {
  return concat("<!DOCTYPE html>\n<html lang=\"en\">\n", document_head(document),
                "<body>\n<a class=\"skip\" href=\"#content\">Skip to the content</a>\n",
                document_header(document), contents(document.entries),
                "<main id=\"content\" tabindex=\"-1\">\n", document.html,
                "</main>\n</body>\n</html>\n");
}

}  // namespace mezzo::report
