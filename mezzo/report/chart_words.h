// What a line chart shows, in words: for its caption, and for who cannot see it.
#pragma once

#include <optional>
#include <string>

#include "mezzo/report/line_chart.h"

namespace mezzo::report {

// The numbers of a series that one looks for. Points that are not finite are left out.
struct SeriesNumbers {
  Point first{};
  Point last{};
  Point lowest{};
  Point highest{};
};
std::optional<SeriesNumbers> numbers_of(const Series& series);

// `last 0.031 · lowest 0.029 at step 57 · highest 2.3 at step 1`, of the only series; empty for
// several, whose legend has their last values.
std::string caption_of(const LineChart& chart);

// `loss: from 2.3 at step 1 to 0.031 at step 60; lowest ..., highest ....` for every series, and
// how many marks there are.
std::string description_of(const LineChart& chart);

}  // namespace mezzo::report
