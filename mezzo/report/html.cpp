#include "mezzo/report/html.h"

#include <vector>

#include "mezzo/core/error.h"
#include "mezzo/report/text.h"

namespace mezzo::report {
namespace {

std::string head_row(const std::vector<std::string>& cells) {
  std::string row = "<tr>";
  for (const std::string& cell : cells) row += concat("<th scope=\"col\">", escape(cell), "</th>");
  return row + "</tr>\n";
}

// The first cell names the row.
std::string body_row(const std::vector<std::string>& cells) {
  std::string row = "<tr>";
  for (std::size_t i = 0; i < cells.size(); ++i) {
    row += i == 0 ? concat("<th scope=\"row\">", escape(cells[i]), "</th>")
                  : concat("<td>", escape(cells[i]), "</td>");
  }
  return row + "</tr>\n";
}

}  // namespace

std::string element(std::string_view tag, std::string_view text) {
  return concat("<", tag, ">", escape(text), "</", tag, ">\n");
}

std::string note(std::string_view text) {
  return concat("<p class=\"note\">", escape(text), "</p>\n");
}

std::string figure(std::string_view html) { return concat("<figure>\n", html, "</figure>\n"); }

std::string wide(std::string_view html, std::string_view label) {
  return concat("<div class=\"wide\" tabindex=\"0\" role=\"group\" aria-label=\"", escape(label),
                "\">\n", html, "</div>\n");
}

std::string table(const Table& content, std::string_view caption) {
  std::string html = concat("<table>\n<caption>", escape(caption), "</caption>\n<thead>",
                            head_row(content.header), "</thead>\n<tbody>\n");
  for (const auto& row : content.rows) html += body_row(row);
  return wide(html + "</tbody></table>\n", caption);
}

std::string table_folded_if_long(const Table& content, std::string_view caption) {
  constexpr std::size_t kMostRows = 24;
  std::string html = table(content, caption);
  if (content.rows.size() <= kMostRows) return html;
  return details(concat(caption, ": ", count_of(std::ssize(content.rows), "row")), html);
}

std::string details(std::string_view summary, std::string_view html) {
  return concat("<details>\n<summary>", escape(summary), "</summary>\n", html, "</details>\n");
}

std::string with_whole_percentages(std::string text) {
  constexpr std::string_view kSign = " %";
  constexpr std::string_view kUnbroken = "\u00a0%";
  for (std::size_t at = text.find(kSign); at != std::string::npos; at = text.find(kSign, at)) {
    text.replace(at, kSign.size(), kUnbroken);
  }
  return text;
}

}  // namespace mezzo::report
