#include "mezzo/report/svg.h"

#include <cmath>
#include <utility>

#include "mezzo/core/error.h"
#include "mezzo/report/text.h"

namespace mezzo::report {
namespace {

std::string pair(Point point) { return coordinate(point.x) + " " + coordinate(point.y); }

std::string class_attribute(std::string_view css_class) {
  return css_class.empty() ? std::string() : concat(" class=\"", css_class, "\"");
}

std::string title_element(std::string_view title) {
  return title.empty() ? std::string() : concat("<title>", escape(title), "</title>");
}

}  // namespace

std::string coordinate(double value) {
  MEZZO_INVARIANT(std::isfinite(value));
  return format_number(std::round(value * 10) / 10, 7);
}

std::string path_through(std::span<const Point> points, bool closed) {
  std::string d;
  for (const Point& point : points) d += concat(d.empty() ? "M" : "L", pair(point));
  return closed ? d + "Z" : d;
}

std::string svg_head(std::string_view size, std::string_view label, std::string_view description) {
  return concat("<svg ", size, " role=\"img\">\n<title>", escape(label), "</title>\n<desc>",
                escape(description), "</desc>\n");
}

std::string anchor_attribute(Anchor anchor) {
  switch (anchor) {
    case Anchor::kStart: return {};
    case Anchor::kMiddle: return " text-anchor=\"middle\"";
    case Anchor::kEnd: return " text-anchor=\"end\"";
  }
  return {};
}

Svg::Svg(double width, double height, std::string_view label, std::string_view description)
    : out_(svg_head(concat("viewBox=\"0 0 ", coordinate(width), " ", coordinate(height), "\""),
                    label, description)) {}

void Svg::rect(Point corner, Point size, std::string_view css_class) {
  out_ += concat("<rect x=\"", coordinate(corner.x), "\" y=\"", coordinate(corner.y), "\" width=\"",
                 coordinate(size.x), "\" height=\"", coordinate(size.y), "\"",
                 class_attribute(css_class), "/>\n");
}

void Svg::line(Point from, Point to, std::string_view css_class) {
  out_ +=
      concat("<path d=\"M", pair(from), "L", pair(to), "\"", class_attribute(css_class), "/>\n");
}

void Svg::circle(Point centre, double radius, std::string_view css_class, std::string_view title) {
  out_ += concat("<circle cx=\"", coordinate(centre.x), "\" cy=\"", coordinate(centre.y), "\" r=\"",
                 coordinate(radius), "\"", class_attribute(css_class), ">", title_element(title),
                 "</circle>\n");
}

void Svg::path(std::span<const Point> points, std::string_view css_class, bool closed) {
  if (points.empty()) return;
  out_ +=
      concat("<path d=\"", path_through(points, closed), "\"", class_attribute(css_class), "/>\n");
}

void Svg::text(Point at, std::string_view text, std::string_view css_class, Anchor anchor,
               std::string_view title) {
  out_ += concat("<text x=\"", coordinate(at.x), "\" y=\"", coordinate(at.y), "\"",
                 anchor_attribute(anchor), class_attribute(css_class), ">", title_element(title),
                 escape(text), "</text>\n");
}

void Svg::add_bar(Point from, double width) {
  bars_ += concat("M", pair(from), "h", coordinate(width));
}

void Svg::draw_bars(std::string_view css_class, double opacity) {
  if (!bars_.empty()) {
    out_ += concat("<path d=\"", std::exchange(bars_, {}), "\"", class_attribute(css_class),
                   " stroke-opacity=\"", format_number(opacity, 3), "\"/>\n");
  }
}

void Svg::begin_group(std::string_view css_class) {
  out_ += concat("<g", class_attribute(css_class), ">\n");
}

void Svg::end_group() { out_ += "</g>\n"; }

std::string Svg::take() { return std::move(out_) + "</svg>\n"; }

}  // namespace mezzo::report
