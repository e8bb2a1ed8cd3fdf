#include "mezzo/report/exponent_chart.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "mezzo/core/error.h"
#include "mezzo/report/html.h"
#include "mezzo/report/svg.h"
#include "mezzo/report/text.h"

namespace mezzo::report {
namespace {

using amp::GradientHistogram;

std::string nothing(const ExponentChart& chart) {
  return concat("<p class=\"empty\">No ", chart.noun,
                " to draw: none that was counted is finite and not zero.</p>\n");
}

constexpr std::size_t kManyRows = 80;

// The effect of f16 on the gradients of a binade; each fate has a class that paints it.
enum class Fate : unsigned char { kLost, kSubnormal, kKept, kInfinite };
constexpr std::array kFates{Fate::kLost, Fate::kSubnormal, Fate::kKept, Fate::kInfinite};

const char* class_of(Fate fate) {
  switch (fate) {
    case Fate::kLost: return "lost";
    case Fate::kSubnormal: return "weak";
    case Fate::kKept: return "kept";
    case Fate::kInfinite: return "over";
  }
  return "";
}

// The first exponent of each fate after kLost.
constexpr int kF16Subnormal = -25;
constexpr int kF16Normal = -14;
constexpr int kF16Infinite = 16;

Fate fate_in_f16(int exponent) {
  if (exponent < kF16Subnormal) return Fate::kLost;
  if (exponent < kF16Normal) return Fate::kSubnormal;
  return exponent < kF16Infinite ? Fate::kKept : Fate::kInfinite;
}

// Maps the exponents [low, high) to the positions [left, right].
struct ExponentScale {
  int low;
  int high;
  double left;
  double right;

  double cell() const { return (right - left) / (high - low); }
  double place(int exponent) const {
    return left + cell() * (std::clamp(exponent, low, high) - low);
  }
};

// A scale wide enough for all gradients and for the limits of f16.
ExponentScale scale_for(std::span<const GradientHistogram> histograms, double left, double right) {
  ExponentScale scale{kF16Subnormal - 2, kF16Infinite + 2, left, right};
  for (const GradientHistogram& histogram : histograms) {
    scale.low = std::min(scale.low, histogram.quantile(0).value_or(scale.low));
    scale.high = std::max(scale.high, histogram.quantile(1).value_or(scale.high - 1) + 1);
  }
  return scale;
}

void draw_range(Svg& svg, const ExponentScale& scale, double y, std::array<int, 3> ends) {
  const auto draw = [&](int from, int to, const char* css_class) {
    const double x = scale.place(from);
    if (scale.place(to) > x) svg.rect({x, y}, {scale.place(to) - x, 7}, css_class);
  };
  draw(ends[0], ends[1], "range weak-range");
  draw(ends[1], ends[2], "range");
}

// Draws strips for the ranges of the types above a plot; returns the y where they end.
double draw_ranges(Svg& svg, const ExponentScale& scale, double y, int shift) {
  const auto row = [&](const std::string& name, std::array<int, 3> ends) {
    svg.text({scale.left - 8, y + 8}, name, "tick", Anchor::kEnd);
    draw_range(svg, scale, y, ends);
    y += 14;
  };
  row("bf16", {-126, -126, 128});
  row("f16", {kF16Subnormal, kF16Normal, kF16Infinite});
  if (shift != 0) {
    row(concat("f16 at 2^", shift),
        {kF16Subnormal - shift, kF16Normal - shift, kF16Infinite - shift});
  }
  return y;
}

// Draws plain exponents, since superscript digits would be too small to read.
void draw_exponents(Svg& svg, const ExponentScale& scale, double y) {
  const int every = scale.high - scale.low > 60 ? 10 : 5;
  for (int exponent = scale.low; exponent < scale.high; ++exponent) {
    // The first position is reserved for the word beside the axis.
    if (exponent % every != 0 || scale.place(exponent) < scale.left + 10) continue;
    svg.text({scale.place(exponent), y}, std::to_string(exponent), "tick", Anchor::kMiddle);
  }
}

// Draws the limits of f16 through a plot.
void draw_limits(Svg& svg, const ExponentScale& scale, double top, double bottom, int shift) {
  const auto draw = [&](int exponent, const char* css_class) {
    if (exponent <= scale.low || exponent >= scale.high) return;
    svg.line({scale.place(exponent), top}, {scale.place(exponent), bottom}, css_class);
  };
  draw(kF16Subnormal, "limit");
  draw(kF16Infinite, "limit");
  if (shift == 0) return;
  draw(kF16Subnormal - shift, "limit scaled");
  draw(kF16Infinite - shift, "limit scaled");
}

// The share of the gradients in each binade of the scale.
std::vector<double> parts_of(const GradientHistogram& histogram, const ExponentScale& scale) {
  const auto total =
      static_cast<double>(std::max<std::int64_t>(1, histogram.counts.finite_nonzero()));
  std::vector<double> parts;
  for (int exponent = scale.low; exponent < scale.high; ++exponent) {
    parts.push_back(static_cast<double>(histogram.counts.at(exponent)) / total);
  }
  return parts;
}

// A share from 0 to 1 in few characters; 0 differs from what is merely small.
std::string short_part(double part) {
  if (part == 0) return "0";
  return part < 0.001 ? "<0.1 %" : format_fixed(100 * part, 1) + " %";
}

// The share that would become zero or infinite.
double outside_f16(const GradientHistogram& histogram, double scale) {
  return histogram.lost_in(DType::kF16, scale) + histogram.overflowing_in(DType::kF16, scale);
}

class HeatMap {
 public:
  HeatMap(std::span<const GradientHistogram> histograms, const ExponentChart& chart)
      : histograms_(histograms),
        chart_(chart),
        scale_(scale_for(histograms, kMapLeft, kMapRight)),
        top_(chart.shift != 0 ? 66 : 52),
        bottom_(top_ + kRow * static_cast<double>(histograms.size())),
        svg_(kChartWidth, bottom_ + 24, chart.label) {
    for (const GradientHistogram& histogram : histograms) shades_.push_back(shades_of(histogram));
  }

  std::string draw() {
    draw_ranges(svg_, scale_, 6, chart_.shift);
    draw_exponents(svg_, scale_, top_ - 6);
    svg_.rect({kMapLeft, top_}, {kMapRight - kMapLeft, bottom_ - top_}, "plot");
    for (const Fate fate : kFates) draw_cells(fate);
    draw_limits(svg_, scale_, top_, bottom_, chart_.shift);
    draw_heads();
    for (std::size_t row = 0; row < histograms_.size(); ++row) draw_numbers(row);
    draw_exponents(svg_, scale_, bottom_ + 16);
    return svg_.take();
  }

 private:
  static constexpr double kMapLeft = 196;
  static constexpr double kMapRight = 570;
  static constexpr double kRow = 14;
  static constexpr int kShades = 8;
  static constexpr std::size_t kNameLength = 28;

  double y_of(std::size_t row) const { return top_ + kRow * static_cast<double>(row); }

  // From 0 for none to kShades for the fullest binade of the row. The square root keeps binades
  // with a hundredth of the gradients visible.
  std::vector<int> shades_of(const GradientHistogram& histogram) const {
    const std::vector<double> parts = parts_of(histogram, scale_);
    const double most = *std::ranges::max_element(parts);
    std::vector<int> shades(parts.size());
    if (most == 0) return shades;
    std::ranges::transform(parts, shades.begin(), [most](double part) {
      return static_cast<int>(std::ceil(kShades * std::sqrt(part / most)));
    });
    return shades;
  }

  void draw_cells(Fate fate) {
    for (int wanted = 1; wanted <= kShades; ++wanted) {
      for (std::size_t row = 0; row < histograms_.size(); ++row) add_cells(row, fate, wanted);
      svg_.fill_cells(class_of(fate), static_cast<double>(wanted) / kShades);
    }
  }

  void add_cells(std::size_t row, Fate fate, int wanted) {
    for (int exponent = scale_.low; exponent < scale_.high; ++exponent) {
      const int shade = shades_[row][static_cast<std::size_t>(exponent - scale_.low)];
      if (fate_in_f16(exponent) != fate || shade != wanted) continue;
      svg_.add_cell({scale_.place(exponent), y_of(row) + 1}, {scale_.cell(), kRow - 1});
    }
  }

  void draw_heads() {
    svg_.text({kMapLeft - 8, top_ - 6}, "exponent", "tick", Anchor::kEnd);
    svg_.text({616, top_ - 6}, "zero", "tick", Anchor::kEnd);
    svg_.text({694, top_ - 6}, "outside f16", "tick", Anchor::kEnd);
    if (chart_.shift != 0) {
      svg_.text({756, top_ - 6}, concat("at 2^", chart_.shift), "tick", Anchor::kEnd);
    }
  }

  void draw_numbers(std::size_t row) {
    const GradientHistogram& histogram = histograms_[row];
    const double y = y_of(row) + 11;
    svg_.text({kMapLeft - 8, y}, shortened(histogram.name, kNameLength), "name", Anchor::kEnd,
              concat(histogram.name, " ", histogram.shape));
    const std::int64_t total = histogram.counts.total();
    if (total == 0) return;
    const double zeros = static_cast<double>(histogram.counts.zeros()) / static_cast<double>(total);
    svg_.text({616, y}, short_part(zeros), "number", Anchor::kEnd);
    svg_.text({694, y}, short_part(outside_f16(histogram, 1)), "number", Anchor::kEnd);
    if (chart_.shift == 0) return;
    svg_.text({756, y}, short_part(outside_f16(histogram, std::exp2(chart_.shift))), "number",
              Anchor::kEnd);
  }

  std::span<const GradientHistogram> histograms_;
  const ExponentChart& chart_;
  ExponentScale scale_;
  double top_;
  double bottom_;
  Svg svg_;
  std::vector<std::vector<int>> shades_;  // by row and binade
};

}  // namespace

std::string fate_keys() {
  return "<p class=\"note\"><span class=\"key\"><i class=\"kept\"></i>normal in f16</span> "
         "<span class=\"key\"><i class=\"weak\"></i>subnormal in f16: fewer bits</span> "
         "<span class=\"key\"><i class=\"lost\"></i>becomes zero in f16</span> "
         "<span class=\"key\"><i class=\"over\"></i>overflows f16</span></p>\n";
}

std::string bars_to_svg(const GradientHistogram& histogram, const ExponentChart& chart) {
  if (histogram.counts.finite_nonzero() == 0) return nothing(chart);
  constexpr double kHeight = 300;
  constexpr double kBottom = kHeight - 26;
  const ExponentScale scale = scale_for({&histogram, 1}, 92, kChartWidth - 12);
  Svg svg(kChartWidth, kHeight, chart.label);
  const double top = draw_ranges(svg, scale, 6, chart.shift) + 12;
  const std::vector<double> parts = parts_of(histogram, scale);
  const double most = *std::ranges::max_element(parts);
  for (const double part : {most, most / 2}) {
    const double y = kBottom - (kBottom - top) * part / most;
    svg.line({scale.left, y}, {scale.right, y}, "grid");
    svg.text({scale.left - 8, y + 4}, short_part(part), "tick", Anchor::kEnd);
  }
  for (int exponent = scale.low; exponent < scale.high; ++exponent) {
    const double part = parts[static_cast<std::size_t>(exponent - scale.low)];
    const double height = (kBottom - top) * part / most;
    if (height <= 0) continue;
    // Every non-empty bar is visible, however small it is.
    const double seen = std::max(height, 1.0);
    svg.rect({scale.place(exponent) + 0.5, kBottom - seen}, {scale.cell() - 1, seen},
             class_of(fate_in_f16(exponent)));
  }
  svg.line({scale.left, kBottom}, {scale.right, kBottom}, "axis");
  draw_limits(svg, scale, top, kBottom, chart.shift);
  draw_exponents(svg, scale, kBottom + 17);
  svg.text({scale.left - 8, kBottom + 17}, "exponent", "tick", Anchor::kEnd);
  return svg.take();
}

std::string heat_map_to_svg(std::span<const GradientHistogram> histograms,
                            const ExponentChart& chart) {
  return histograms.empty() ? nothing(chart) : HeatMap(histograms, chart).draw();
}

std::string heat_maps(std::span<const amp::GradientHistogram> histograms,
                      const ExponentChart& chart, const std::string& row) {
  const std::string map = figure(heat_map_to_svg(histograms, chart));
  if (histograms.size() <= kManyRows) return map;
  return details(concat("All ", histograms.size(), " rows, one per ", row), map);
}

}  // namespace mezzo::report
