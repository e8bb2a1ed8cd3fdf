#include "benchmarks/numerics/table.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <iostream>
#include <limits>
#include <utility>

namespace numerics {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Two digits after the point, none for whole numbers.
std::string in_words(double number, const std::string& unit) {
  const bool whole = number == std::floor(number);
  const std::string digits = fixed(number, whole ? 0 : 2);
  return unit.empty() ? digits : digits + " " + unit;
}

}  // namespace

std::string fixed(double number, int digits) {
  char buffer[64];
  std::snprintf(buffer, sizeof(buffer), "%.*f", digits, number);
  return buffer;
}

void Table::add(Row row) {
  std::cerr << row.experiment << ": " << row.quantity << ": " << in_words(row.measured, row.unit)
            << (row.passed() ? "" : " - NOT AS EXPECTED: " + row.expected) << std::endl;
  rows_.push_back(std::move(row));
}

bool Table::passed() const { return std::ranges::all_of(rows_, &Row::passed); }

std::string Table::markdown() const {
  std::string text = "| experiment | quantity | measured | expected | |\n|---|---|---|---|---|\n";
  for (const Row& row : rows_) {
    text += "| " + row.experiment + " | " + row.quantity + " | " +
            in_words(row.measured, row.unit) + " | " + row.expected + " | " +
            (row.passed() ? "pass" : "FAIL") + " |\n";
  }
  return text;
}

Row at_most(std::string experiment, std::string quantity, double measured, double limit,
            std::string unit) {
  const std::string expected = "at most " + in_words(limit, unit);
  return {std::move(experiment), std::move(quantity), measured,
          std::move(unit),       {-kInfinity, limit}, expected};
}

Row at_least(std::string experiment, std::string quantity, double measured, double limit,
             std::string unit) {
  const std::string expected = "at least " + in_words(limit, unit);
  return {std::move(experiment), std::move(quantity), measured,
          std::move(unit),       {limit, kInfinity},  expected};
}

Row between(std::string experiment, std::string quantity, double measured, Band band,
            std::string unit) {
  const std::string high = in_words(band.high, unit);
  const std::string expected =
      band.low == band.high ? "exactly " + high : in_words(band.low, "") + " to " + high;
  return {std::move(experiment), std::move(quantity), measured, std::move(unit), band, expected};
}

}  // namespace numerics
