// A small SVG writer: each shape has a class, which the page's style sheet paints.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace mezzo::report {

inline constexpr double kChartWidth = 760;  // of every chart of a page, which scales all alike

struct Point {
  double x = 0;
  double y = 0;
};

enum class Anchor : unsigned char { kStart, kMiddle, kEnd };

// A drawing in its own units, which scales with the page. All coordinates must be finite.
class Svg {
 public:
  // Screen readers read `label`.
  Svg(double width, double height, std::string_view label);

  void rect(Point corner, Point size, std::string_view css_class);
  void line(Point from, Point to, std::string_view css_class);
  void circle(Point centre, double radius, std::string_view css_class, std::string_view title = {});
  // A line through the points, or the area that they enclose.
  void path(std::span<const Point> points, std::string_view css_class, bool closed = false);
  // `title` is shown when the pointer rests on the text.
  void text(Point at, std::string_view text, std::string_view css_class,
            Anchor anchor = Anchor::kStart, std::string_view title = {});
  // Draws many squares as one element: call add_cell() for each, then fill_cells().
  void add_cell(Point corner, Point size);
  void fill_cells(std::string_view css_class, double opacity);

  // The whole element. Must be called only once.
  std::string take();

 private:
  std::string out_;
  std::string cells_;
};

}  // namespace mezzo::report
