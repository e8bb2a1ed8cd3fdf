// Line charts over steps or epochs.
#pragma once

#include <string>
#include <vector>

#include "mezzo/report/axis.h"
#include "mezzo/report/svg.h"

namespace mezzo::report {

struct Series {
  std::string name{};
  std::vector<Point> points{};  // by ascending x; non-finite points leave a gap
};

// An event at one x.
struct Mark {
  double x = 0;
  std::string title{};
};

struct LineChart {
  std::string label{};  // what is drawn
  std::string x_label{};
  AxisKind y_axis = AxisKind::kLinear;
  bool from_zero = false;   // the y axis begins at 0
  bool is_stepped = false;  // values hold until the next point
  bool has_dots = false;
  std::vector<Series> series{};
  std::vector<Mark> marks{};
  std::string mark_name{"skipped step"};  // what a mark stands for
};

// The content of a figure: the drawing, the names of several series with their last values, and a
// caption with the numbers that one looks for. Long series are averaged down to as many points as
// can be distinguished, over a band from their smallest to their largest values. A chart without
// points says so.
std::string to_svg(const LineChart& chart);

// kLog10 if all values are positive and span more than a factor of 20, which a linear axis would
// squeeze into its lowest part; otherwise kLinear.
AxisKind axis_for(const std::vector<Series>& series);

}  // namespace mezzo::report
