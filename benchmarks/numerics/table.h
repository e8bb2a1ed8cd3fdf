// The table of measured and expected values.
#pragma once

#include <string>
#include <vector>

namespace numerics {

// The values that count as a pass, both ends included.
struct Band {
  double low;
  double high;
};

// One measured value.
struct Row {
  std::string experiment;
  std::string quantity;
  double measured = 0;
  std::string unit;
  Band band{};
  std::string expected;  // the band as text

  bool passed() const { return measured >= band.low && measured <= band.high; }
};

class Table {
 public:
  // Adds a value and prints it to standard error, since the whole takes minutes.
  void add(Row row);
  // True if every value is in its band.
  bool passed() const;
  std::string markdown() const;

 private:
  std::vector<Row> rows_;
};

// Rows whose bands are given as text.
Row at_most(std::string experiment, std::string quantity, double measured, double limit,
            std::string unit);
Row at_least(std::string experiment, std::string quantity, double measured, double limit,
             std::string unit);
Row between(std::string experiment, std::string quantity, double measured, Band band,
            std::string unit);

// `number` with that many digits after the point.
std::string fixed(double number, int digits);

}  // namespace numerics
