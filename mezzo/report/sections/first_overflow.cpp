#include "mezzo/core/error.h"
#include "mezzo/report/html.h"
#include "mezzo/report/sections/sections.h"

namespace mezzo::report {
namespace {

// A row for each call that led to the bad one, the nearest last.
Table chain_of(const numbers::OverflowFinding& finding) {
  Table rows{.header = {"call", "result", "range", "not finite"}};
  for (const numbers::TracedStepCall& call : finding.chain) {
    for (const numbers::Operand& output : call.outputs) {
      rows.rows.push_back({call.id.text(), concat(name_of(output.dtype), output.shape),
                           output.range.text(), output.range.text_of_bad()});
    }
  }
  return rows;
}

std::string title_of(const numbers::OverflowFinding& finding) {
  const std::string call = finding.call.op.empty() ? "no call" : finding.call.text();
  return concat("Step ", finding.step, ": ", call);
}

}  // namespace

Section first_overflow_section(const RunData& run) {
  Section section{.id = "first-overflow",
                  .title = "First overflow",
                  .intro =
                      "Each skipped step was made once more, and every result looked at. This is "
                      "the call whose inputs were finite, or came from outside of the step, and "
                      "whose result was not; the calls above it are where its largest inputs "
                      "come from."};
  for (const numbers::OverflowFinding& finding : run.first_overflows) {
    std::string html = element("p", finding.text());
    if (!finding.chain.empty()) html += table(chain_of(finding), "The calls that led to it");
    section.add(title_of(finding), html);
  }
  return section;
}

}  // namespace mezzo::report
