// A drawing as wide as the page, whatever its width: shapes stretch, while letters, lines and dots
// keep their size. So it can be read on a phone and on paper.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "mezzo/report/svg.h"

namespace mezzo::report {

inline constexpr double kPlotWidth = 1000;  // in units of the drawing

// Places are {x, y} with x from 0 to kPlotWidth and y in pixels from the top; all must be finite.
// Names of ticks stand in a margin on the left.
class Plot {
 public:
  struct Frame {
    double height = 0;  // in pixels
    double left = 56;   // the margins, likewise
    double right = 12;
  };

  // Screen readers read the label and then the description, which says in words what is drawn.
  Plot(const Frame& frame, std::string_view label, std::string_view description);

  void rect(Point corner, Point size, std::string_view css_class);
  void line(Point from, Point to, std::string_view css_class);
  // A line through the points, or the area that they enclose.
  void path(std::span<const Point> points, std::string_view css_class, bool closed = false);
  // Upright lines of that class as one element.
  void uprights(std::span<const double> places, double top, double bottom,
                std::string_view css_class);
  // `title` is shown when the pointer rests on the dot.
  void dot(Point centre, std::string_view css_class, std::string_view title = {});
  void text(Point at, std::string_view text, std::string_view css_class,
            Anchor anchor = Anchor::kMiddle);
  // A text in the left margin.
  void side_text(double y, std::string_view text, std::string_view css_class = "tick");

  // The whole element. Must be called only once.
  std::string take();

 private:
  Frame frame_;
  std::string head_;
  std::string shapes_;
  std::string texts_;
};

}  // namespace mezzo::report
