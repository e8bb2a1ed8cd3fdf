#include <algorithm>
#include <tuple>
#include <vector>

#include "mezzo/core/error.h"
#include "mezzo/report/exponent_chart.h"
#include "mezzo/report/exponent_scale.h"
#include "mezzo/report/html.h"
#include "mezzo/report/text.h"

namespace mezzo::report {
namespace {

using amp::GradientHistogram;
using Histograms = std::span<const GradientHistogram>;

constexpr std::size_t kRowsOfAFigure = 48;  // which fits a printed page
constexpr std::size_t kMostAffected = 24;
constexpr std::size_t kMostRows = 400;  // 450 bytes each

// How much f16 without scaling affects a histogram, for comparing: first what it loses, then what
// keeps fewer bits, and last whether there is anything to show.
auto effect_of(const GradientHistogram& histogram) {
  return std::tuple(outside_f16(histogram, 1), histogram.subnormal_in(DType::kF16),
                    histogram.counts.finite_nonzero() > 0);
}

// So many of them that f16 affects most, in their order.
std::vector<GradientHistogram> most_affected_of(Histograms histograms, std::size_t count) {
  std::vector<std::size_t> order(histograms.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::ranges::stable_sort(order, std::greater<>(),
                           [&](std::size_t i) { return effect_of(histograms[i]); });
  order.resize(std::min(count, order.size()));
  std::ranges::sort(order);
  std::vector<GradientHistogram> chosen;
  for (const std::size_t i : order) chosen.push_back(histograms[i]);
  return chosen;
}

std::string map_figure(Histograms histograms, const ExponentChart& chart) {
  return figure(wide(heat_map_to_svg(histograms, chart), chart.label));
}

// As many figures as it takes, each with its axes.
std::string map_figures(Histograms histograms, const ExponentChart& chart) {
  std::string html;
  for (std::size_t first = 0; first < histograms.size(); first += kRowsOfAFigure) {
    const std::size_t count = std::min(kRowsOfAFigure, histograms.size() - first);
    ExponentChart part = chart;
    part.label += concat(", rows ", first + 1, " to ", first + count);
    html += map_figure(histograms.subspan(first, count), part);
  }
  return html;
}

}  // namespace

std::string heat_maps(Histograms histograms, const ExponentChart& chart, const std::string& row) {
  if (histograms.size() <= kRowsOfAFigure) return map_figure(histograms, chart);
  const auto count = std::ssize(histograms);
  ExponentChart affected = chart;
  affected.label += ", of those that f16 affects most";
  std::string html =
      note(concat("Those ", kMostAffected, " of ", count_of(count, row),
                  " that f16 without scaling affects most; the list below has the others.")) +
      map_figure(most_affected_of(histograms, kMostAffected), affected);
  if (histograms.size() <= kMostRows) {
    return html + details(concat("All ", count_of(count, row)), map_figures(histograms, chart));
  }
  return html +
         details(concat("The ", kMostRows, " of ", count_of(count, row), " that f16 affects most"),
                 map_figures(most_affected_of(histograms, kMostRows), chart));
}

}  // namespace mezzo::report
