#include "mezzo/report/page.h"

#include <span>

#include "mezzo/core/error.h"
#include "mezzo/io/atomic_file.h"
#include "mezzo/report/html.h"
#include "mezzo/report/sections/sections.h"
#include "mezzo/report/style.h"

namespace mezzo::report {
namespace {

constexpr const char* kOp = "report";

// The sections of a run, in the order of the page.
constexpr Section (*kSections[])(const RunData&) = {
    summary_section,
    training_section,
    first_overflow_section,
    batch_section,
    parameter_gradients_section,
    activation_gradients_section,
    activations_section,
    weights_section,
    plan_section,
};

std::string run_sections(const RunData& run, const Place& place) {
  std::string html;
  for (const auto& section : kSections) html += to_html(section(run), place);
  return html;
}

std::string body(const Report& report) {
  if (report.runs.empty()) return {};
  if (report.runs.size() == 1) return run_sections(report.runs.front(), {});
  std::string html = to_html(comparison_section(report.runs), {});
  std::size_t number = 0;
  for (const RunData& run : report.runs) {
    const std::string id = concat("run-", ++number);
    html += concat("<article id=\"", id, "\">\n", element("h2", run.name),
                   run_sections(run, {.prefix = id + "-", .level = 3}), "</article>\n");
  }
  return html;
}

}  // namespace

std::string to_html(const Report& report) {
  return concat("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n",
                "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n",
                element("title", report.title), "<style>", kStyle,
                "</style>\n</head>\n<body>\n<header>\n", element("h1", report.title),
                "<p class=\"sub\">mezzo training report</p>\n</header>\n<main id=\"content\">\n",
                body(report), "</main>\n</body>\n</html>\n");
}

void write_page(const std::string& path, const Report& report) {
  const std::string html = to_html(report);
  io::write_file(path, std::as_bytes(std::span(html.data(), html.size())), kOp);
}

void check_writable(const std::string& path) { io::check_writable(path, kOp); }

}  // namespace mezzo::report
