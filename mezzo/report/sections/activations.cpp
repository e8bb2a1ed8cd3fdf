#include <span>

#include "mezzo/core/error.h"
#include "mezzo/report/exponent_chart.h"
#include "mezzo/report/html.h"
#include "mezzo/report/range_verdict.h"
#include "mezzo/report/sections/sections.h"
#include "mezzo/report/text.h"

namespace mezzo::report {
namespace {

// `none`, or the shares that become infinite, zero and subnormal.
std::string effect_text(const ExponentCounts& counts, NumberFormat format) {
  const numbers::RangeEffect effect = numbers::effect_of(counts, format);
  if (effect.to_infinity + effect.to_zero + effect.to_subnormal == 0) return "none";
  return concat(format_part(effect.to_infinity), " / ", format_part(effect.to_zero), " / ",
                format_part(effect.to_subnormal), effect.fits() ? "" : " (keep)");
}

std::string zeros_text(const ExponentCounts& counts) {
  if (counts.total() == 0) return {};
  return format_part(static_cast<double>(counts.zeros()) / static_cast<double>(counts.total()));
}

std::string range_text(const ExponentCounts& counts) {
  if (counts.finite_nonzero() == 0) return {};
  return concat(power_of_two(counts.smallest().value_or(0)), " to ",
                power_of_two(counts.largest().value_or(0) + 1));
}

Table table_of(std::span<const numbers::CallHistogram> calls) {
  Table result{.header = {"call", "dtype", "range", "zero", "infinite or NaN"}};
  for (const NumberFormatInfo& info : kNumberFormats) result.header.emplace_back(info.name);
  for (const numbers::CallHistogram& call : calls) {
    const ExponentCounts& counts = call.exponents.counts;
    std::vector<std::string> row{call.exponents.name, name_of(call.dtype), range_text(counts),
                                 zeros_text(counts),
                                 std::to_string(counts.infinities() + counts.nans())};
    for (const NumberFormatInfo& info : kNumberFormats) {
      row.push_back(effect_text(counts, info.format));
    }
    result.rows.push_back(std::move(row));
  }
  return result;
}

}  // namespace

Section activations_section(const RunData& run) {
  Section section{.id = "activations", .title = "Activations"};
  if (run.activations.empty()) return section;
  const std::vector<amp::ExponentHistogram> modules = numbers::by_module(run.activations);
  const ExponentChart bars{.label = "Activations by binary exponent", .noun = "activations"};
  const ExponentChart map{.label = "Activations by binary exponent, one row per module",
                          .noun = "activations"};
  section.intro =
      concat("The results of the calls of the forward pass, by powers of two, counted in ",
             counted_passes_text(run),
             ". Zeros are left out. Colours show what f16 does to them; the strips on top show the "
             "range of each type.");
  section.add(fate_keys());
  section.add("All together", figure(bars_to_svg(amp::sum_of(modules, "all"), bars)));
  section.add("By module", heat_maps(modules, map, "module"));
  section.add("By call", note("For each format the shares of the numbers that are finite and not "
                              "zero which become infinite / zero / subnormal, without a scale. "
                              "(keep): the format cannot hold them, since some become infinite or "
                              "more than 1 % of what they add up to is lost.") +
                             table_folded_if_long(table_of(run.activations),
                                                  "What each format does to every call's results"));
  return section;
}

}  // namespace mezzo::report
