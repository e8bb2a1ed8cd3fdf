// Maps values to positions along an axis, and chooses the ticks beside it.
#pragma once

#include <string>
#include <vector>

namespace mezzo::report {

enum class AxisKind : unsigned char { kLinear, kLog10, kLog2 };

struct Tick {
  double value = 0;
  std::string text;
};

class Axis {
 public:
  // Covers [low, high] with a small margin, from position `from` to position `to`. Ends that are
  // not a range (equal, not finite, not positive on a logarithmic axis) are moved apart.
  Axis(AxisKind kind, double low, double high, double from, double to);

  // True for values that have a position: finite, and positive on a logarithmic axis.
  bool has(double value) const;
  double place(double value) const;
  // About `count` round values within the range. On a linear axis they are at least `least_step`
  // apart, 1 for counts.
  std::vector<Tick> ticks(int count = 5, double least_step = 0) const;

 private:
  double position_of(double value) const;  // value, or its logarithm
  std::vector<Tick> linear_ticks(int count, double least_step) const;
  std::vector<Tick> log10_ticks(int count) const;
  std::vector<Tick> log2_ticks(int count) const;

  AxisKind kind_;
  double low_;  // as positions
  double high_;
  double from_;
  double to_;
};

}  // namespace mezzo::report
