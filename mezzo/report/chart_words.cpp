#include "mezzo/report/chart_words.h"

#include <cmath>

#include "mezzo/core/error.h"
#include "mezzo/report/text.h"

namespace mezzo::report {
namespace {

std::string value_text(const LineChart& chart, double value) {
  return chart.y_axis == AxisKind::kLog2 ? format_scale(value) : format_number(value);
}

// `0.029 at step 57`.
std::string point_text(const LineChart& chart, Point point) {
  return concat(value_text(chart, point.y), " at ", chart.x_label, chart.x_label.empty() ? "" : " ",
                format_number(point.x, 9));
}

std::string sentence_of(const LineChart& chart, const Series& series) {
  const auto numbers = numbers_of(series);
  if (!numbers) return concat(series.name, ": no value is finite.");
  return concat(series.name, ": from ", point_text(chart, numbers->first), " to ",
                point_text(chart, numbers->last), "; lowest ", point_text(chart, numbers->lowest),
                ", highest ", point_text(chart, numbers->highest), ".");
}

}  // namespace

std::optional<SeriesNumbers> numbers_of(const Series& series) {
  std::optional<SeriesNumbers> numbers;
  for (const Point& point : series.points) {
    if (!std::isfinite(point.y)) continue;
    if (!numbers) numbers = {point, point, point, point};
    numbers->last = point;
    if (point.y < numbers->lowest.y) numbers->lowest = point;
    if (point.y > numbers->highest.y) numbers->highest = point;
  }
  return numbers;
}

std::string caption_of(const LineChart& chart) {
  if (chart.series.size() != 1) return {};
  const auto numbers = numbers_of(chart.series.front());
  if (!numbers) return {};
  std::string text = concat("last ", value_text(chart, numbers->last.y), " · lowest ",
                            point_text(chart, numbers->lowest), " · highest ",
                            point_text(chart, numbers->highest));
  if (!chart.marks.empty()) {
    text += concat(" · dashed: ", count_of(std::ssize(chart.marks), chart.mark_name));
  }
  return text;
}

std::string description_of(const LineChart& chart) {
  std::string text;
  for (const Series& series : chart.series) {
    text += concat(text.empty() ? "" : " ", sentence_of(chart, series));
  }
  if (!chart.marks.empty()) {
    text +=
        concat(" ", count_of(std::ssize(chart.marks), chart.mark_name),
               chart.marks.size() == 1 ? ": " : ", the first: ", chart.marks.front().title, ".");
  }
  return text;
}

}  // namespace mezzo::report
