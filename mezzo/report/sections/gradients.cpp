#include <span>

#include "mezzo/core/error.h"
#include "mezzo/report/exponent_chart.h"
#include "mezzo/report/html.h"
#include "mezzo/report/sections/sections.h"
#include "mezzo/report/verdict.h"

namespace mezzo::report {
namespace {

// `row`: what one histogram is of.
Section gradient_section(Section section, const RunData& run,
                         std::span<const amp::GradientHistogram> histograms,
                         const std::string& row) {
  if (histograms.empty()) return section;
  const ExponentChart bars{.label = section.title + " by binary exponent",
                           .shift = shown_shift(run)};
  const ExponentChart map{.label = section.title + " by binary exponent, one row per " + row,
                          .shift = bars.shift};
  section.intro = concat(
      "Gradients without the loss scale, by powers of two, counted in ", counted_text(run),
      ". Zeros are left out. Colours show what f16 does to them without scaling; the strips on top "
      "show the range of each type.");
  section.add(fate_keys());
  section.add("All together", figure(bars_to_svg(amp::sum_of(histograms, "all"), bars)));
  section.add("By " + row, heat_maps(histograms, map, row));
  return section;
}

}  // namespace

Section parameter_gradients_section(const RunData& run) {
  return gradient_section({.id = "parameter-gradients", .title = "Parameter gradients"}, run,
                          run.gradients, "parameter");
}

Section activation_gradients_section(const RunData& run) {
  return gradient_section({.id = "activation-gradients", .title = "Activation gradients"}, run,
                          run.activation_gradients, "module");
}

}  // namespace mezzo::report
