#include <algorithm>
#include <cmath>
#include <vector>

#include "mezzo/core/error.h"
#include "mezzo/report/exponent_chart.h"
#include "mezzo/report/exponent_scale.h"
#include "mezzo/report/svg.h"
#include "mezzo/report/text.h"

namespace mezzo::report {
namespace {

using amp::GradientHistogram;

std::string map_description(std::span<const GradientHistogram> histograms) {
  const auto worst = std::ranges::max_element(
      histograms, {}, [](const GradientHistogram& one) { return outside_f16(one, 1); });
  const GradientHistogram sum = amp::sum_of(histograms, "");
  const std::string rows = count_of(std::ssize(histograms), "row") + ". ";
  if (sum.counts.finite_nonzero() == 0) return rows + "No value is finite and not zero.";
  const double part = outside_f16(*worst, 1);
  return concat(rows, "The exponents go from ", exponent_text(*sum.quantile(0)), " to ",
                exponent_text(*sum.quantile(1)), ". Outside f16 without scaling ",
                part == 0 ? "is none of any row."
                          : concat("is most of ", worst->name, ": ", format_part(part), "."));
}

class HeatMap {
 public:
  HeatMap(std::span<const GradientHistogram> histograms, const ExponentChart& chart)
      : histograms_(histograms),
        chart_(chart),
        scale_(scale_for(histograms, kMapLeft, kMapRight)),
        top_(chart.shift != 0 ? 66 : 52),
        bottom_(top_ + kRow * static_cast<double>(histograms.size())),
        svg_(kChartWidth, bottom_ + 24, chart.label, map_description(histograms)) {
    // Whole units are short to write, and there are many of them.
    scale_.right = kMapLeft + std::floor(scale_.cell()) * (scale_.high - scale_.low);
    for (const GradientHistogram& histogram : histograms) shades_.push_back(shades_of(histogram));
  }

  std::string draw() {
    draw_ranges();
    draw_exponents(top_ - 6);
    svg_.rect({kMapLeft, top_}, {scale_.right - kMapLeft, bottom_ - top_}, "ground");
    svg_.begin_group("cells");
    for (const Fate fate : kFates) draw_cells(fate);
    svg_.end_group();
    draw_limits(0, "limit");
    if (chart_.shift != 0) draw_limits(chart_.shift, "limit scaled");
    svg_.begin_group("names");
    for (std::size_t row = 0; row < histograms_.size(); ++row) draw_name(row);
    svg_.end_group();
    svg_.begin_group("numbers");
    draw_heads();
    for (std::size_t row = 0; row < histograms_.size(); ++row) draw_numbers(row);
    svg_.end_group();
    draw_exponents(bottom_ + 16);
    return svg_.take();
  }

 private:
  static constexpr double kMapLeft = 196;
  static constexpr double kMapRight = 570;
  static constexpr double kRow = 14;
  static constexpr int kShades = 8;
  static constexpr std::size_t kNameLength = 28;
  static constexpr double kZero = 616;  // where the columns of numbers end
  static constexpr double kOutside = 690;
  static constexpr double kScaled = 756;

  double y_of(std::size_t row) const { return top_ + kRow * static_cast<double>(row); }

  // Strips for the ranges of the types, above the rows.
  void draw_ranges() {
    double y = 6;
    for (const auto& [name, ends] : type_ranges(chart_.shift)) {
      svg_.text({kMapLeft - 8, y + 8}, name, "tick", Anchor::kEnd);
      draw_range(ends[0], ends[1], y, "range weak-range");
      draw_range(ends[1], ends[2], y, "range");
      y += 14;
    }
  }

  void draw_range(int from, int to, double y, const char* css_class) {
    const double x = scale_.place(from);
    if (scale_.place(to) > x) svg_.rect({x, y}, {scale_.place(to) - x, 7}, css_class);
  }

  void draw_exponents(double y) {
    for (const int exponent : exponents_to_write(scale_)) {
      svg_.text({scale_.place(exponent), y}, exponent_text(exponent), "tick", Anchor::kMiddle);
    }
    svg_.text({kMapLeft - 8, y}, "exponent", "tick", Anchor::kEnd);
  }

  void draw_limits(int shift, const char* css_class) {
    for (const int limit : limits_within(scale_, shift)) {
      svg_.line({scale_.place(limit), top_}, {scale_.place(limit), bottom_}, css_class);
    }
  }

  // From 0 for none to kShades for the fullest binade of the row. The square root keeps binades
  // with a hundredth of the values visible.
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
      svg_.draw_bars(class_of(fate), static_cast<double>(wanted) / kShades);
    }
  }

  // Neighbours of one shade and fate are one bar.
  void add_cells(std::size_t row, Fate fate, int wanted) {
    const auto fits = [&](int exponent) {
      return shades_[row][static_cast<std::size_t>(exponent - scale_.low)] == wanted &&
             fate_in_f16(exponent) == fate;
    };
    for (int exponent = scale_.low; exponent < scale_.high; ++exponent) {
      if (!fits(exponent)) continue;
      const int first = exponent;
      while (exponent + 1 < scale_.high && fits(exponent + 1)) ++exponent;
      svg_.add_bar({scale_.place(first), y_of(row) + kRow / 2},
                   scale_.place(exponent + 1) - scale_.place(first));
    }
  }

  void draw_heads() {
    svg_.text({kZero, top_ - 6}, "zero", {});
    svg_.text({kOutside, top_ - 6}, "outside f16", {});
    if (chart_.shift != 0) {
      svg_.text({kScaled, top_ - 6}, "at " + power_of_two(chart_.shift), {});
    }
  }

  void draw_name(std::size_t row) {
    const GradientHistogram& histogram = histograms_[row];
    svg_.text({kMapLeft - 8, y_of(row) + 11}, shortened(histogram.name, kNameLength), {},
              Anchor::kStart, concat(histogram.name, " ", histogram.shape));
  }

  void draw_numbers(std::size_t row) {
    const GradientHistogram& histogram = histograms_[row];
    const double y = y_of(row) + 11;
    const std::int64_t total = histogram.counts.total();
    if (total == 0) return;
    if (histogram.counts.zeros() < total && histogram.counts.finite_nonzero() == 0) {
      svg_.text({kMapRight, y}, "infinite or NaN", {});
      return;
    }
    const double zeros = static_cast<double>(histogram.counts.zeros()) / static_cast<double>(total);
    svg_.text({kZero, y}, short_part(zeros), {});
    svg_.text({kOutside, y}, short_part(outside_f16(histogram, 1)), {});
    if (chart_.shift == 0) return;
    svg_.text({kScaled, y}, short_part(outside_f16(histogram, std::exp2(chart_.shift))), {});
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

std::string heat_map_to_svg(std::span<const GradientHistogram> histograms,
                            const ExponentChart& chart) {
  if (histograms.empty()) return bars_to_svg({}, chart);  // which says so
  return HeatMap(histograms, chart).draw();
}

}  // namespace mezzo::report
