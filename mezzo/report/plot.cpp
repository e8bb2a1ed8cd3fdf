#include "mezzo/report/plot.h"

#include "mezzo/core/error.h"
#include "mezzo/report/text.h"

namespace mezzo::report {
namespace {

std::string shape(std::string_view d, std::string_view css_class) {
  return concat("<path d=\"", d, "\" class=\"", css_class, "\"/>\n");
}

// A share of the width, to a hundredth of a percent.
std::string percent_of_width(double x) { return coordinate(100 * x / kPlotWidth) + "%"; }

}  // namespace

Plot::Plot(const Frame& frame, std::string_view label, std::string_view description)
    : frame_(frame),
      head_(svg_head(concat("width=\"100%\" height=\"", coordinate(frame.height), "\""), label,
                     description)) {}

void Plot::rect(Point corner, Point size, std::string_view css_class) {
  shapes_ += concat("<rect x=\"", coordinate(corner.x), "\" y=\"", coordinate(corner.y),
                    "\" width=\"", coordinate(size.x), "\" height=\"", coordinate(size.y),
                    "\" class=\"", css_class, "\"/>\n");
}

void Plot::line(Point from, Point to, std::string_view css_class) {
  const Point points[] = {from, to};
  shapes_ += shape(path_through(points), css_class);
}

void Plot::path(std::span<const Point> points, std::string_view css_class, bool closed) {
  if (!points.empty()) shapes_ += shape(path_through(points, closed), css_class);
}

void Plot::uprights(std::span<const double> places, double top, double bottom,
                    std::string_view css_class) {
  std::string d;
  for (const double x : places) {
    d += concat("M", coordinate(x), " ", coordinate(top), "V", coordinate(bottom));
  }
  if (!d.empty()) shapes_ += shape(d, css_class);
}

// A line without length, whose round ends stay round when the drawing is stretched.
void Plot::dot(Point centre, std::string_view css_class, std::string_view title) {
  shapes_ += concat("<path d=\"M", coordinate(centre.x), " ", coordinate(centre.y), "h0\" class=\"",
                    css_class, "\">",
                    title.empty() ? std::string() : concat("<title>", escape(title), "</title>"),
                    "</path>\n");
}

void Plot::text(Point at, std::string_view text, std::string_view css_class, Anchor anchor) {
  texts_ +=
      concat("<text x=\"", percent_of_width(at.x), "\" y=\"", coordinate(at.y), "\"",
             anchor_attribute(anchor), " class=\"", css_class, "\">", escape(text), "</text>\n");
}

void Plot::side_text(double y, std::string_view text, std::string_view css_class) {
  texts_ += concat("<text x=\"-8\" y=\"", coordinate(y), "\"", anchor_attribute(Anchor::kEnd),
                   " class=\"", css_class, "\">", escape(text), "</text>\n");
}

std::string Plot::take() {
  return concat("<div class=\"plot\" style=\"padding:0 ", coordinate(frame_.right), "px 0 ",
                coordinate(frame_.left), "px\">", head_, "<svg viewBox=\"0 0 ",
                coordinate(kPlotWidth), " ", coordinate(frame_.height),
                "\" preserveAspectRatio=\"none\" width=\"100%\" height=\"",
                coordinate(frame_.height), "\">\n", shapes_, "</svg>\n", texts_, "</svg></div>\n");
}

}  // namespace mezzo::report
