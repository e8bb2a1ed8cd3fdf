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

// A coordinate, to a tenth of a unit, which is finer than any screen. Must be finite.
std::string coordinate(double value);
// The `d` of a path through the points.
std::string path_through(std::span<const Point> points, bool closed = false);
// What begins a drawing: its attributes for screen readers, its height or view box, its name and
// what it shows, in words.
std::string svg_head(std::string_view size, std::string_view label, std::string_view description);

enum class Anchor : unsigned char { kStart, kMiddle, kEnd };
// ` text-anchor="end"`; empty for kStart.
std::string anchor_attribute(Anchor anchor);

// A drawing in its own units, which scales with the page. All coordinates must be finite.
class Svg {
 public:
  // Screen readers read the label and then the description, which says in words what is drawn.
  Svg(double width, double height, std::string_view label, std::string_view description);

  void rect(Point corner, Point size, std::string_view css_class);
  void line(Point from, Point to, std::string_view css_class);
  void circle(Point centre, double radius, std::string_view css_class, std::string_view title = {});
  // A line through the points, or the area that they enclose.
  void path(std::span<const Point> points, std::string_view css_class, bool closed = false);
  // `title` is shown when the pointer rests on the text.
  void text(Point at, std::string_view text, std::string_view css_class,
            Anchor anchor = Anchor::kStart, std::string_view title = {});
  // Draws many bars as one element: call add_bar() for each, then draw_bars(). They are lines, from
  // their left middle on, as thick as the style sheet says.
  void add_bar(Point from, double width);
  void draw_bars(std::string_view css_class, double opacity);
  // What is drawn between the two has the class, too.
  void begin_group(std::string_view css_class);
  void end_group();

  // The whole element. Must be called only once.
  std::string take();

 private:
  std::string out_;
  std::string bars_;
};

}  // namespace mezzo::report
