#include <algorithm>
#include <array>
#include <vector>

#include "mezzo/core/error.h"
#include "mezzo/report/exponent_chart.h"
#include "mezzo/report/exponent_scale.h"
#include "mezzo/report/html.h"
#include "mezzo/report/plot.h"
#include "mezzo/report/text.h"

namespace mezzo::report {
namespace {

using amp::GradientHistogram;

constexpr double kBarsHeight = 290;
constexpr double kBarsBottom = kBarsHeight - 26;

// What f16 does to all values, as a part of a sentence.
std::string fates_text(const GradientHistogram& histogram) {
  return concat("f16 without scaling makes zero of: ", format_part(histogram.lost_in(DType::kF16)),
                "; keeps with fewer bits: ", format_part(histogram.subnormal_in(DType::kF16)),
                "; overflows: ", format_part(histogram.overflowing_in(DType::kF16)));
}

std::string bars_description(const GradientHistogram& histogram, const ExponentScale& scale,
                             const std::vector<double>& parts) {
  const auto most = std::ranges::max_element(parts);
  const int peak = scale.low + static_cast<int>(most - parts.begin());
  return concat("The exponents go from ", exponent_text(*histogram.quantile(0)), " to ",
                exponent_text(*histogram.quantile(1)), ". The most frequent one is ",
                exponent_text(peak), ", of ", format_part(*most), " of the values. ",
                fates_text(histogram), ".");
}

class Bars {
 public:
  Bars(const GradientHistogram& histogram, const ExponentChart& chart)
      : shift_(chart.shift),
        scale_(scale_for({&histogram, 1}, 0, kPlotWidth)),
        parts_(parts_of(histogram, scale_)),
        most_(*std::ranges::max_element(parts_)),
        plot_({.height = kBarsHeight, .left = 82}, chart.label,
              bars_description(histogram, scale_, parts_)) {}

  std::string draw() {
    draw_ranges();
    draw_grid();
    draw_bars();
    plot_.line({0, kBarsBottom}, {kPlotWidth, kBarsBottom}, "axis");
    draw_limits(0, "limit");
    if (shift_ != 0) draw_limits(shift_, "limit scaled");
    draw_exponents();
    return plot_.take();
  }

 private:
  // Strips for the ranges of the types, above the bars.
  void draw_ranges() {
    double y = 6;
    for (const auto& [name, ends] : type_ranges(shift_)) {
      plot_.side_text(y + 8, name);
      draw_range(ends[0], ends[1], y, "range weak-range");
      draw_range(ends[1], ends[2], y, "range");
      y += 14;
    }
    top_ = y + 12;
  }

  void draw_range(int from, int to, double y, const char* css_class) {
    const double x = scale_.place(from);
    if (scale_.place(to) > x) plot_.rect({x, y}, {scale_.place(to) - x, 7}, css_class);
  }

  void draw_grid() {
    for (const double part : {most_, most_ / 2}) {
      const double y = kBarsBottom - (kBarsBottom - top_) * part / most_;
      plot_.line({0, y}, {kPlotWidth, y}, "grid");
      plot_.side_text(y + 4, short_part(part));
    }
  }

  void draw_bars() {
    for (int exponent = scale_.low; exponent < scale_.high; ++exponent) {
      const double part = parts_[static_cast<std::size_t>(exponent - scale_.low)];
      const double height = (kBarsBottom - top_) * part / most_;
      if (height <= 0) continue;
      // Every non-empty bar is visible, however small it is.
      const double seen = std::max(height, 1.0);
      const double gap = scale_.cell() / 12;
      plot_.rect({scale_.place(exponent) + gap, kBarsBottom - seen},
                 {scale_.cell() - 2 * gap, seen}, class_of(fate_in_f16(exponent)));
    }
  }

  void draw_limits(int shift, const char* css_class) {
    std::vector<double> places;
    for (const int limit : limits_within(scale_, shift)) places.push_back(scale_.place(limit));
    plot_.uprights(places, top_, kBarsBottom, css_class);
  }

  void draw_exponents() {
    bool is_between = false;  // narrow pages show every second one
    for (const int exponent : exponents_to_write(scale_)) {
      plot_.text({scale_.place(exponent), kBarsBottom + 17}, exponent_text(exponent),
                 is_between ? "tick between" : "tick");
      is_between = !is_between;
    }
    plot_.side_text(kBarsBottom + 17, "exponent");
  }

  int shift_;
  ExponentScale scale_;
  std::vector<double> parts_;
  double most_;
  double top_ = 0;
  Plot plot_;
};

}  // namespace

std::string fate_keys() {
  const auto key = [](Fate fate, const std::string& text) {
    return concat("<span class=\"key\"><i class=\"", class_of(fate), "\"></i>", text, "</span> ");
  };
  return concat("<p class=\"note\">",
                key(Fate::kLost, "becomes zero in f16: below " + power_of_two(kF16Subnormal)),
                key(Fate::kSubnormal, "subnormal: fewer bits"),
                key(Fate::kKept, "normal: from " + power_of_two(kF16Normal)),
                key(Fate::kInfinite, "overflows: from " + power_of_two(kF16Infinite)), "</p>\n");
}

std::string bars_to_svg(const GradientHistogram& histogram, const ExponentChart& chart) {
  if (histogram.counts.finite_nonzero() == 0) {
    return concat("<p class=\"empty\">No ", escape(chart.noun),
                  " to draw: none that was counted is finite and not zero.</p>\n");
  }
  return Bars(histogram, chart).draw() +
         element("figcaption", with_whole_percentages(fates_text(histogram)));
}

}  // namespace mezzo::report
