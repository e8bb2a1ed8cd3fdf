// Numbers to places along a drawing, and the numbers worth writing beside it.
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
  // Covers [low, high] and a little more, from the place `from` to the place `to`. Ends that make
  // no range (equal, not finite, not positive on a logarithmic axis) are moved apart.
  Axis(AxisKind kind, double low, double high, double from, double to);

  // True for numbers that have a place: finite, and positive on a logarithmic axis.
  bool has(double value) const;
  double place(double value) const;
  // About `count` numbers, round ones, within the range; on a linear axis no closer than
  // `least_step`: 1 for what is counted.
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
