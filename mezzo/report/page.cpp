#include "mezzo/report/page.h"

#include <span>
#include <utility>

#include "mezzo/core/error.h"
#include "mezzo/io/atomic_file.h"
#include "mezzo/report/contents.h"
#include "mezzo/report/html.h"
#include "mezzo/report/palette.h"
#include "mezzo/report/sections/sections.h"
#include "mezzo/report/status.h"
#include "mezzo/report/style.h"

namespace mezzo::report {
namespace {

constexpr const char* kOp = "report";

// The sections of a run, in the order of the page.
constexpr Section (*kSections[])(const RunData&) = {
    summary_section,
    training_section,
    batch_section,
    parameter_gradients_section,
    activation_gradients_section,
    plan_section,
};

// What stands between the page's header and its end.
struct Body {
  std::vector<Entry> entries{};
  std::string html{};

  void add(const std::vector<Section>& sections, const Place& place) {
    for (Entry& entry : entries_of(sections, place)) entries.push_back(std::move(entry));
    for (const Section& section : sections) html += to_html(section, place);
  }
};

std::vector<Section> sections_of(const RunData& run) {
  std::vector<Section> sections;
  for (const auto& section : kSections) sections.push_back(section(run));
  return sections;
}

Body body_of(const Report& report) {
  Body body;
  if (report.runs.size() == 1) body.add(sections_of(report.runs.front()), {});
  if (report.runs.size() < 2) return body;
  body.add({comparison_section(report.runs)}, {});
  std::size_t number = 0;
  for (const RunData& run : report.runs) {
    const std::string id = concat("run-", ++number);
    Body part;
    part.add(sections_of(run), {.prefix = id + "-", .level = 3});
    body.entries.push_back({.id = id, .title = run.name, .below = std::move(part.entries)});
    body.html +=
        concat("<article id=\"", id, "\">\n", element("h2", run.name), part.html, "</article>\n");
  }
  return body;
}

std::string head(const Report& report) {
  return concat("<head>\n<meta charset=\"utf-8\"/>\n",
                "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n",
                is_running(report) ? "<meta http-equiv=\"refresh\" content=\"5\"/>\n" : "",
                element("title", tab_text(report)), "<style>", kPalette, kStyle,
                "</style>\n</head>\n");
}

std::string status_line(const Report& report) {
  const std::string text = status_text(report);
  if (text.empty()) return {};
  return concat("<p class=\"", is_running(report) ? "status running" : "status", "\">", text,
                is_running(report) ? " This page is written anew as the run goes on." : "",
                "</p>\n");
}

}  // namespace

std::string to_html(const Report& report) {
  const Body body = body_of(report);
  return concat("<!DOCTYPE html>\n<html lang=\"en\">\n", head(report),
                "<body>\n<a class=\"skip\" href=\"#content\">Skip to the content</a>\n<header>\n",
                "<p class=\"sub\">mezzo training report</p>\n", element("h1", report.title),
                status_line(report), "</header>\n", contents(body.entries),
                "<main id=\"content\" tabindex=\"-1\">\n", body.html,
                "</main>\n</body>\n</html>\n");
}

void write_page(const std::string& path, const Report& report) {
  const std::string html = to_html(report);
  io::write_file(path, std::as_bytes(std::span(html.data(), html.size())), kOp);
}

void check_writable(const std::string& path) { io::check_writable(path, kOp); }

}  // namespace mezzo::report
