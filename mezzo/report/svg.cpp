#include "mezzo/report/svg.h"

#include <cmath>
#include <utility>

#include "mezzo/core/error.h"
#include "mezzo/report/text.h"

namespace mezzo::report {
namespace {

// A tenth of a unit is finer than any screen.
std::string coordinate(double value) {
  MEZZO_INVARIANT(std::isfinite(value));
  return format_number(std::round(value * 10) / 10, 7);
}

std::string pair(Point point) { return coordinate(point.x) + " " + coordinate(point.y); }

std::string class_attribute(std::string_view css_class) {
  return concat(" class=\"", css_class, "\"");
}

std::string title_element(std::string_view title) {
  return title.empty() ? std::string() : concat("<title>", escape(title), "</title>");
}

const char* name_of(Anchor anchor) {
  switch (anchor) {
    case Anchor::kStart: return "start";
    case Anchor::kMiddle: return "middle";
    case Anchor::kEnd: return "end";
  }
  return "start";
}

}  // namespace

Svg::Svg(double width, double height, std::string_view label)
    : out_(concat("<svg viewBox=\"0 0 ", coordinate(width), " ", coordinate(height),
                  "\" role=\"img\" aria-label=\"", escape(label), "\">\n")) {}

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
  std::string d;
  for (const Point& point : points) d += concat(d.empty() ? "M" : "L", pair(point));
  out_ += concat("<path d=\"", d, closed ? "Z" : "", "\"", class_attribute(css_class), "/>\n");
}

void Svg::text(Point at, std::string_view text, std::string_view css_class, Anchor anchor,
               std::string_view title) {
  out_ += concat("<text x=\"", coordinate(at.x), "\" y=\"", coordinate(at.y), "\" text-anchor=\"",
                 name_of(anchor), "\"", class_attribute(css_class), ">", title_element(title),
                 escape(text), "</text>\n");
}

void Svg::add_cell(Point corner, Point size) {
  cells_ += concat("M", pair(corner), "h", coordinate(size.x), "v", coordinate(size.y), "h",
                   coordinate(-size.x), "z");
}

void Svg::fill_cells(std::string_view css_class, double opacity) {
  if (!cells_.empty()) {
    out_ += concat("<path d=\"", std::exchange(cells_, {}), "\"", class_attribute(css_class),
                   " fill-opacity=\"", format_number(opacity, 3), "\"/>\n");
  }
}

std::string Svg::take() { return std::move(out_) + "</svg>\n"; }

}  // namespace mezzo::report
