#include "mezzo/report/html.h"
#include "mezzo/report/sections/sections.h"

namespace mezzo::report {

Section plan_section(const RunData& run) {
  Section section{.id = "plan", .title = "Precision plan"};
  if (run.plan.rows.empty()) return section;
  section.add(table(run.plan, "The precision of every call"));
  if (!run.reasons.rows.empty()) {
    section.add("Reasons", table(run.reasons, "The reasons that the plan names by number"));
  }
  return section;
}

}  // namespace mezzo::report
