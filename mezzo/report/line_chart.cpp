#include "mezzo/report/line_chart.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>

#include "mezzo/core/error.h"
#include "mezzo/core/math.h"
#include "mezzo/report/chart_words.h"
#include "mezzo/report/html.h"
#include "mezzo/report/plot.h"
#include "mezzo/report/text.h"

namespace mezzo::report {
namespace {

constexpr double kHeight = 236;
constexpr double kTop = 12;
constexpr double kBottom = kHeight - 26;
constexpr std::size_t kMostPoints = 360;
// Without a common divisor: thirty series have different looks.
constexpr int kColours = 6;
constexpr int kStrokes = 5;

struct Range {
  double low = std::numeric_limits<double>::infinity();
  double high = -std::numeric_limits<double>::infinity();
  bool is_empty() const { return low > high; }
  void add(double value) {
    if (!std::isfinite(value)) return;
    low = std::min(low, value);
    high = std::max(high, value);
  }
};

// Neighbouring points that share a position of the drawing, combined.
struct Bucket {
  double x = 0;
  double y = 0;  // mean of the finite ones; NaN if there is none
  Range range{};
};

Bucket bucket_of(std::span<const Point> points) {
  Bucket bucket;
  double count = 0;
  for (const Point& point : points) {
    bucket.x += point.x / static_cast<double>(points.size());
    if (!std::isfinite(point.y)) continue;
    bucket.y += point.y;
    bucket.range.add(point.y);
    ++count;
  }
  bucket.y = count > 0 ? bucket.y / count : std::numeric_limits<double>::quiet_NaN();
  return bucket;
}

std::vector<Bucket> buckets_of(std::span<const Point> points) {
  const std::size_t size = ceil_div(points.size(), kMostPoints);
  std::vector<Bucket> buckets;
  for (std::size_t i = 0; i < points.size(); i += size) {
    buckets.push_back(bucket_of(points.subspan(i, std::min(size, points.size() - i))));
  }
  return buckets;
}

// Each series has a colour and a stroke, so that no two look alike even without colours.
std::string look_of(std::size_t i) { return concat("c", i % kColours, " s", i % kStrokes); }

// The names of several series, each beside a piece of its line and before its last value.
std::string legend_of(const LineChart& chart) {
  if (chart.series.size() < 2) return {};
  std::string html = "<ul class=\"legend\">\n";
  for (std::size_t i = 0; i < chart.series.size(); ++i) {
    const Series& series = chart.series[i];
    const auto numbers = numbers_of(series);
    html +=
        concat("<li><svg width=\"26\" height=\"8\" aria-hidden=\"true\"><path d=\"M1 4h24\" ",
               "class=\"line ", look_of(i), "\"/></svg>", escape(series.name),
               numbers ? concat(" <b>", format_number(numbers->last.y), "</b>") : "", "</li>\n");
  }
  return html + "</ul>\n";
}

class Drawing {
 public:
  Drawing(const LineChart& chart, Range x, Range y)
      : chart_(chart),
        plot_({.height = kHeight}, chart.label, description_of(chart)),
        x_(AxisKind::kLinear, x.low, x.high, 0, kPlotWidth),
        y_(chart.y_axis, y.low, y.high, kBottom, kTop) {}

  std::string draw() {
    draw_axes();
    draw_marks();
    for (std::size_t i = 0; i < chart_.series.size(); ++i) draw_series(i);
    return plot_.take();
  }

 private:
  void draw_axes() {
    for (const Tick& tick : y_.ticks()) {
      const double y = y_.place(tick.value);
      plot_.line({0, y}, {kPlotWidth, y}, "grid");
      plot_.side_text(y + 4, tick.text);
    }
    const std::vector<Tick> ticks = x_.ticks(8, 1);
    bool is_between = false;  // narrow pages show every second one of many
    for (const Tick& tick : ticks) {
      plot_.text({x_.place(tick.value), kBottom + 17}, tick.text,
                 is_between ? "tick between" : "tick");
      is_between = !is_between && ticks.size() > 4;
    }
    plot_.line({0, kBottom}, {kPlotWidth, kBottom}, "axis");
    plot_.side_text(kBottom + 17, chart_.x_label);
  }

  // Marks that cannot be distinguished are drawn once. Very many are lines without titles.
  void draw_marks() {
    constexpr std::size_t kMostWithTitles = 40;
    std::vector<double> places;
    std::vector<const Mark*> drawn;
    for (const Mark& mark : chart_.marks) {
      if (!x_.has(mark.x) || (!places.empty() && x_.place(mark.x) < places.back() + 2)) continue;
      places.push_back(x_.place(mark.x));
      drawn.push_back(&mark);
    }
    plot_.uprights(places, kTop, kBottom, "mark");
    if (drawn.size() > kMostWithTitles) return;
    for (std::size_t i = 0; i < drawn.size(); ++i) {
      plot_.dot({places[i], kTop}, "mark-dot", drawn[i]->title);
    }
  }

  // The next run of points without a gap, from `begin` on; moves `begin` past it.
  std::span<const Bucket> next_run(const std::vector<Bucket>& buckets, std::size_t& begin) const {
    const auto fits = [&](const Bucket& bucket) { return x_.has(bucket.x) && y_.has(bucket.y); };
    while (begin < buckets.size() && !fits(buckets[begin])) ++begin;
    std::size_t end = begin;
    while (end < buckets.size() && fits(buckets[end])) ++end;
    const std::span<const Bucket> run(buckets.data() + begin, end - begin);
    begin = end;
    return run;
  }

  void draw_series(std::size_t i) {
    const Series& series = chart_.series[i];
    const std::vector<Bucket> buckets = buckets_of(series.points);
    const bool is_thinned = buckets.size() < series.points.size();
    std::size_t begin = 0;
    for (auto run = next_run(buckets, begin); !run.empty(); run = next_run(buckets, begin)) {
      if (is_thinned) draw_band(run, concat("c", i % kColours));
      draw_line(run, look_of(i));
    }
  }

  void draw_band(std::span<const Bucket> run, const std::string& css_class) {
    std::vector<Point> outline;
    for (const Bucket& bucket : run) outline.push_back(place(bucket.x, bucket.range.high));
    for (std::size_t i = run.size(); i-- > 0;) {
      // On a logarithmic axis a value of zero has no position; the band then ends at the mean.
      const double low = y_.has(run[i].range.low) ? run[i].range.low : run[i].y;
      outline.push_back(place(run[i].x, low));
    }
    plot_.path(outline, "band " + css_class, true);
  }

  void draw_line(std::span<const Bucket> run, const std::string& css_class) {
    std::vector<Point> line;
    for (const Bucket& bucket : run) {
      const Point point = place(bucket.x, bucket.y);
      if (chart_.is_stepped && !line.empty()) line.push_back({point.x, line.back().y});
      line.push_back(point);
    }
    plot_.path(line, "line " + css_class);
    if (!chart_.has_dots && run.size() > 1) return;
    for (const Bucket& bucket : run) {
      plot_.dot(place(bucket.x, bucket.y), "dot " + css_class);
    }
  }

  Point place(double x, double y) const { return {x_.place(x), y_.place(y)}; }

  const LineChart& chart_;
  Plot plot_;
  Axis x_;
  Axis y_;
};

}  // namespace

std::string to_svg(const LineChart& chart) {
  Range x;
  Range y;
  for (const Series& series : chart.series) {
    for (const Point& point : series.points) {
      const bool has_place = chart.y_axis == AxisKind::kLinear || point.y > 0;
      x.add(point.x);
      if (has_place) y.add(point.y);
    }
  }
  for (const Mark& mark : chart.marks) x.add(mark.x);
  if (chart.from_zero && chart.y_axis == AxisKind::kLinear) y.add(0);
  if (x.is_empty() || y.is_empty()) return "<p class=\"empty\">There is nothing to draw.</p>\n";
  const std::string caption = caption_of(chart);
  return Drawing(chart, x, y).draw() + legend_of(chart) +
         (caption.empty() ? "" : element("figcaption", caption));
}

AxisKind axis_for(const std::vector<Series>& series) {
  Range range;
  for (const Series& one : series) {
    for (const Point& point : one.points) range.add(point.y);
  }
  const bool is_wide = !range.is_empty() && range.low > 0 && range.high / range.low > 20;
  return is_wide ? AxisKind::kLog10 : AxisKind::kLinear;
}

}  // namespace mezzo::report
