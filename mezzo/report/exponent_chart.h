// Charts of gradients by binary exponent, compared with the ranges of the 16-bit types.
#pragma once

#include <span>
#include <string>

#include "mezzo/amp/gradient_histogram.h"

namespace mezzo::report {

// The ranges that both drawings show beside the gradients: those of bf16, of f16, and of f16 if the
// gradients were multiplied by 2^shift.
struct ExponentChart {
  std::string label{};
  int shift = 0;  // 0: no scale is drawn
};

// One histogram as bars: each binade's share of all non-zero gradients.
std::string bars_to_svg(const amp::GradientHistogram& histogram, const ExponentChart& chart);

// One row per histogram, darker where more of its gradients are, with the share that f16 would
// lose. Histograms without gradients have an empty row.
std::string heat_map_to_svg(std::span<const amp::GradientHistogram> histograms,
                            const ExponentChart& chart);

}  // namespace mezzo::report
