#include "mezzo/core/error.h"
#include "mezzo/report/exponent_chart.h"
#include "mezzo/report/html.h"
#include "mezzo/report/range_verdict.h"
#include "mezzo/report/sections/sections.h"

namespace mezzo::report {

Section weights_section(const RunData& run) {
  Section section{.id = "weights", .title = "Weights"};
  if (run.weights.empty()) return section;
  const ExponentChart map{.label = "Weights by binary exponent, one row per parameter or buffer",
                          .noun = "weights"};
  section.intro = concat(
      "Parameters and buffers as they were at the beginning of each step that "
      "was counted, by powers of two, in ",
      counted_passes_text(run), ". Zeros are left out.");
  section.add(fate_keys());
  section.add("By parameter", heat_maps(run.weights, map, "parameter"));
  return section;
}

}  // namespace mezzo::report
