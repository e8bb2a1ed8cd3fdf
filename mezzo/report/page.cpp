#include "mezzo/report/page.h"

#include <span>
#include <utility>

#include "mezzo/core/error.h"
#include "mezzo/io/atomic_file.h"
#include "mezzo/report/document.h"
#include "mezzo/report/html.h"
#include "mezzo/report/sections/sections.h"
#include "mezzo/report/status.h"

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

std::vector<Section> sections_of(const RunData& run) {
  std::vector<Section> sections;
  for (const auto& section : kSections) sections.push_back(section(run));
  return sections;
}

// Several runs: first side by side, then one after the other.
void add_runs(const std::vector<RunData>& runs, Document& document) {
  document.add({comparison_section(runs)}, {});
  std::size_t number = 0;
  for (const RunData& run : runs) {
    const std::string id = concat("run-", ++number);
    Document part;
    part.add(sections_of(run), {.prefix = id + "-", .level = 3});
    document.entries.push_back({.id = id, .title = run.name, .below = std::move(part.entries)});
    document.html +=
        concat("<article id=\"", id, "\">\n", element("h2", run.name), part.html, "</article>\n");
  }
}

}  // namespace

std::string to_html(const Report& report) {
  Document document{.title = report.title,
                    .kind = "mezzo training report",
                    .tab = tab_text(report),
                    .status = status_text(report),
                    .is_live = is_running(report)};
  if (document.is_live) document.status += " This page is written anew as the run goes on.";
  if (report.runs.size() == 1) {
    document.add(sections_of(report.runs.front()), {});
  } else if (!report.runs.empty()) {
    add_runs(report.runs, document);
  }
  return to_html(document);
}

void write_page(const std::string& path, const Report& report) {
  const std::string html = to_html(report);
  io::write_file(path, std::as_bytes(std::span(html.data(), html.size())), kOp);
}

void check_writable(const std::string& path) { io::check_writable(path, kOp); }

}  // namespace mezzo::report
