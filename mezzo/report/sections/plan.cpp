#include <algorithm>
#include <map>

#include "mezzo/core/error.h"
#include "mezzo/report/html.h"
#include "mezzo/report/sections/sections.h"
#include "mezzo/report/text.h"

namespace mezzo::report {
namespace {

// `161 calls: 107 in bf16, 54 in f32.`, if the plan says the dtype of each.
std::string calls_by_dtype(const Table& plan) {
  const auto column = std::ranges::find(plan.header, "dtype") - plan.header.begin();
  if (column == std::ssize(plan.header)) return {};
  std::map<std::string, std::int64_t> calls;
  for (const auto& row : plan.rows) ++calls[row[static_cast<std::size_t>(column)]];
  std::string text = count_of(std::ssize(plan.rows), "call");
  const char* separator = ": ";
  for (const auto& [dtype, count] : calls) {
    text += concat(separator, count, " in ", dtype);
    separator = ", ";
  }
  return text + ".";
}

}  // namespace

Section plan_section(const RunData& run) {
  Section section{.id = "plan", .title = "Precision plan"};
  if (run.plan.rows.empty()) return section;
  section.intro = calls_by_dtype(run.plan);
  section.add(table_folded_if_long(run.plan, "The precision of every call"));
  if (!run.reasons.rows.empty()) {
    section.add("Reasons",
                table_folded_if_long(run.reasons, "The reasons that the plan names by number"));
  }
  return section;
}

}  // namespace mezzo::report
