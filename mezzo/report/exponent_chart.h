// Charts of gradients, or of other values, by binary exponent, compared with the ranges of the
// 16-bit types.
#pragma once

#include <span>
#include <string>

#include "mezzo/amp/gradient_histogram.h"

namespace mezzo::report {

// The ranges that all drawings show beside the values: those of bf16, of f16, and of f16 if the
// values were multiplied by 2^shift.
struct ExponentChart {
  std::string label{};
  int shift = 0;                  // 0: no scale is drawn
  std::string noun{"gradients"};  // what was counted
};

// What the colours of the charts mean: a paragraph.
std::string fate_keys();

// One histogram as bars: each binade's share of all non-zero values.
std::string bars_to_svg(const amp::GradientHistogram& histogram, const ExponentChart& chart);

// One row per histogram, darker where more of its values are, with the share that f16 would lose.
// Histograms without values have an empty row.
std::string heat_map_to_svg(std::span<const amp::GradientHistogram> histograms,
                            const ExponentChart& chart);

// Any number of histograms as a figure with such rows, folded if there are very many.
// `row`: what one histogram is of, `parameter`.
std::string heat_maps(std::span<const amp::GradientHistogram> histograms,
                      const ExponentChart& chart, const std::string& row);

}  // namespace mezzo::report
