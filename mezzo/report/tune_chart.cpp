#include "mezzo/report/tune_chart.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "mezzo/core/error.h"
#include "mezzo/report/axis.h"
#include "mezzo/report/plot.h"
#include "mezzo/report/text.h"

namespace mezzo::report {
namespace {

using tune::ProvedSetting;
using tune::TuneResult;

constexpr double kTuneHeight = 320;
constexpr double kTuneTop = 60;  // names stand above dots
constexpr double kTuneBottom = 280;

// The errors that have a place on a logarithmic axis.
std::vector<double> drawn_errors(const TuneResult& result) {
  std::vector<double> errors{result.error_budget};
  for (const ProvedSetting& setting : result.settings) {
    if (setting.error.is_finite() && setting.error.total > 0) errors.push_back(setting.error.total);
  }
  return errors;
}

const char* class_of_setting(const TuneResult& result, std::size_t i) {
  const ProvedSetting& setting = result.settings[i];
  if (i == result.chosen) return "chosen";
  if (!setting.error.is_finite()) return "over";
  return setting.is_plan ? "plan" : "level";
}

class TuneDrawing {
 public:
  explicit TuneDrawing(const TuneResult& result)
      : result_(result),
        errors_(drawn_errors(result)),
        x_(AxisKind::kLinear, 0, slowest(), 0, kPlotWidth),
        y_(AxisKind::kLog10, *std::ranges::min_element(errors_), *std::ranges::max_element(errors_),
           kTuneBottom, kTuneTop),
        plot_({.height = kTuneHeight}, "Time and error of each setting", description()) {}

  std::string take() {
    draw_grid();
    draw_front();
    for (std::size_t i = 0; i < result_.settings.size(); ++i) draw(i);
    return plot_.take();
  }

 private:
  double slowest() const {
    double ms = 0;
    for (const ProvedSetting& setting : result_.settings) ms = std::max(ms, setting.ms);
    return ms;
  }

  std::string description() const {
    std::string text = "Time of a step in ms, and error of its gradients:";
    for (const ProvedSetting& setting : result_.settings) {
      text += concat(" ", setting.name, " ", format_number(setting.ms), ", ",
                     tune::error_text(setting.error.total), ";");
    }
    return text;
  }

  Point place_of(const ProvedSetting& setting) const {
    const double error = setting.error.total;
    const bool has_place = setting.error.is_finite() && y_.has(error);
    const double above = setting.error.is_finite() ? kTuneBottom : kTuneTop - 12;
    return {x_.place(setting.ms), has_place ? y_.place(error) : above};
  }

  void draw_grid() {
    for (const Tick& tick : y_.ticks(5)) {
      const double y = y_.place(tick.value);
      plot_.line({0, y}, {kPlotWidth, y}, "grid");
      plot_.side_text(y + 4, tune::error_text(tick.value));
    }
    for (const Tick& tick : x_.ticks(6)) {
      plot_.text({x_.place(tick.value), kTuneBottom + 18}, tick.text, "tick");
    }
    plot_.text({kPlotWidth / 2, kTuneHeight - 4}, "ms per step", "tick");
    const double budget = y_.place(result_.error_budget);
    plot_.line({0, budget}, {kPlotWidth, budget}, "budget");
  }

  void draw_front() {
    std::vector<Point> front;
    for (const ProvedSetting& setting : result_.settings) {
      if (setting.is_best) front.push_back(place_of(setting));
    }
    std::ranges::sort(front, {}, &Point::x);
    if (front.size() > 1) plot_.path(front, "front");
  }

  void draw(std::size_t i) {
    const ProvedSetting& setting = result_.settings[i];
    const Point at = place_of(setting);
    plot_.dot(at, concat("dot ", class_of_setting(result_, i)),
              concat(setting.name, ": ", format_number(setting.ms), " ms, error ",
                     tune::error_text(setting.error.total)));
    draw_name(at, setting.name);
  }

  // Above the dot, or as far above it as the names of others leave room. At the right edge it
  // stands to the left of its dot.
  void draw_name(const Point& at, const std::string& name) {
    constexpr double kNear = 0.25 * kPlotWidth;  // as long as names are on a narrow screen
    constexpr double kLine = 13;
    const bool is_right = at.x > 0.75 * kPlotWidth;
    Point place{at.x, at.y - 9};
    const auto is_taken = [&](const Point& other) {
      return std::abs(other.x - place.x) < kNear && std::abs(other.y - place.y) < kLine;
    };
    while (std::ranges::any_of(names_, is_taken)) place.y -= 1;
    names_.push_back(place);
    plot_.text(place, name, "tick", is_right ? Anchor::kEnd : Anchor::kStart);
  }

  const TuneResult& result_;
  std::vector<double> errors_;
  Axis x_;
  Axis y_;
  Plot plot_;
  std::vector<Point> names_;  // where names stand
};

}  // namespace

std::string tune_chart(const TuneResult& result) { return TuneDrawing(result).take(); }

}  // namespace mezzo::report
