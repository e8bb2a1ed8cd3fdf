#include "mezzo/core/error.h"
#include "mezzo/report/html.h"
#include "mezzo/report/key_figures.h"
#include "mezzo/report/sections/sections.h"
#include "mezzo/report/text.h"
#include "mezzo/report/verdict.h"

namespace mezzo::report {
namespace {

std::string figures_list(const RunData& run) {
  const std::vector<KeyFigure> figures = key_figures(run);
  if (figures.empty()) return {};
  std::string html = "<dl class=\"figures\">\n";
  for (const KeyFigure& one : figures) {
    html += concat("<div><dt>", escape(one.name), "</dt><dd>",
                   escape(with_whole_percentages(one.value)),
                   one.remark.empty() ? "" : concat("<small>", escape(one.remark), "</small>"),
                   "</dd></div>\n");
  }
  return html + "</dl>\n";
}

std::string verdict_box(const RunData& run) {
  const std::vector<std::string> sentences = verdict(run);
  if (sentences.empty()) return {};
  std::string html = "<div class=\"verdict\">\n";
  for (const std::string& sentence : sentences) {
    html += element("p", with_whole_percentages(sentence));
  }
  return html + "</div>\n";
}

std::string configuration(const RunData& run) {
  if (run.configuration.empty()) return {};
  std::string html = "<dl class=\"facts\">\n";
  for (const auto& [name, value] : run.configuration) {
    html += "<div>" + element("dt", name) + element("dd", value) + "</div>\n";
  }
  return html + "</dl>\n";
}

// The page of a part of a run says so first, since its curves begin in the middle.
std::string resume_note(const RunData& run) {
  if (run.resumed_after == 0) return {};
  return note(concat("This run was resumed from a checkpoint. The page begins with step ",
                     run.resumed_after + 1, ": the ", count_of(run.resumed_after, "step"),
                     " before it are in the report and the events of the run that made them."));
}

}  // namespace

Section summary_section(const RunData& run) {
  Section section{.id = "summary", .title = "Summary"};
  section.add(resume_note(run));
  section.add(figures_list(run));
  section.add(verdict_box(run));
  section.add("Configuration", configuration(run));
  return section;
}

}  // namespace mezzo::report
