#include "mezzo/report/line_chart.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <span>

#include "mezzo/core/error.h"
#include "mezzo/core/math.h"

namespace mezzo::report {
namespace {

constexpr double kHeight = 260;
constexpr double kLeft = 62;
constexpr double kRight = kChartWidth - 12;
constexpr double kTop = 14;
constexpr double kBottom = kHeight - 40;
constexpr std::size_t kMostPoints = 360;
constexpr int kColours = 6;

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

// Where the entries of a legend begin, row by row beside the name of the axis. Empty for one
// series.
std::vector<Point> legend_places(const std::vector<Series>& series) {
  constexpr double kRow = 18;
  constexpr double kAxisName = 50;
  std::vector<Point> places;
  if (series.size() < 2) return places;
  Point place{kLeft + 10, kBottom + 30};
  for (const Series& one : series) {
    const double width = 44 + 6.6 * static_cast<double>(one.name.size());
    const bool is_first = place.x == kLeft + 10;
    if (!is_first && place.x + width > kRight - kAxisName) place = {kLeft + 10, place.y + kRow};
    places.push_back(place);
    place.x += width;
  }
  return places;
}

class Drawing {
 public:
  Drawing(const LineChart& chart, Range x, Range y)
      : chart_(chart),
        legend_(legend_places(chart.series)),
        svg_(kChartWidth, legend_.empty() ? kHeight : legend_.back().y + kHeight - kBottom - 30,
             chart.label),
        x_(AxisKind::kLinear, x.low, x.high, kLeft, kRight),
        y_(chart.y_axis, y.low, y.high, kBottom, kTop) {}

  std::string draw() {
    draw_axes();
    draw_marks();
    for (std::size_t i = 0; i < chart_.series.size(); ++i) draw_series(i);
    draw_legend();
    return svg_.take();
  }

 private:
  // If there are more series than colours, the second round is dashed and the third dotted.
  static std::string colour(std::size_t i) {
    constexpr const char* kStrokes[] = {"", " dashed", " dotted"};
    return concat("c", i % kColours, kStrokes[i / kColours % std::size(kStrokes)]);
  }

  void draw_axes() {
    for (const Tick& tick : y_.ticks()) {
      const double y = y_.place(tick.value);
      svg_.line({kLeft, y}, {kRight, y}, "grid");
      svg_.text({kLeft - 8, y + 4}, tick.text, "tick", Anchor::kEnd);
    }
    for (const Tick& tick : x_.ticks(8, 1)) {
      svg_.text({x_.place(tick.value), kBottom + 17}, tick.text, "tick", Anchor::kMiddle);
    }
    svg_.line({kLeft, kBottom}, {kRight, kBottom}, "axis");
    svg_.text({kRight, kBottom + 34}, chart_.x_label, "tick", Anchor::kEnd);
  }

  // Marks that cannot be distinguished are drawn once.
  void draw_marks() {
    double last = -1;
    for (const Mark& mark : chart_.marks) {
      if (!x_.has(mark.x) || x_.place(mark.x) < last + 1) continue;
      const double x = last = x_.place(mark.x);
      svg_.line({x, kTop}, {x, kBottom}, "mark");
      svg_.circle({x, kTop}, 3.5, "mark-dot", mark.title);
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
      if (is_thinned) draw_band(run, colour(i));
      draw_line(run, colour(i));
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
    svg_.path(outline, "band " + css_class, true);
  }

  void draw_line(std::span<const Bucket> run, const std::string& css_class) {
    std::vector<Point> line;
    for (const Bucket& bucket : run) {
      const Point point = place(bucket.x, bucket.y);
      if (chart_.is_stepped && !line.empty()) line.push_back({point.x, line.back().y});
      line.push_back(point);
    }
    svg_.path(line, "line " + css_class);
    if (!chart_.has_dots && run.size() > 1) return;
    for (const Bucket& bucket : run) {
      svg_.circle(place(bucket.x, bucket.y), 3.5, "dot " + css_class);
    }
  }

  Point place(double x, double y) const { return {x_.place(x), y_.place(y)}; }

  void draw_legend() {
    for (std::size_t i = 0; i < legend_.size(); ++i) {
      const auto [x, y] = legend_[i];
      svg_.line({x, y}, {x + 18, y}, "line " + colour(i));
      svg_.text({x + 24, y + 4}, chart_.series[i].name, "tick");
    }
  }

  const LineChart& chart_;
  std::vector<Point> legend_;
  Svg svg_;
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
  return Drawing(chart, x, y).draw();
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
