// Parses numbers in fields of CSV files.
#include <charconv>
#include <cmath>
#include <limits>

#include "mezzo/data/csv_records.h"

namespace mezzo::data {
namespace {

constexpr const char* kNoNumber = "is not a number";
constexpr const char* kTooLarge = "is not finite in f32";

// For a number out of the range of double: whether it is too small rather than too large.
bool is_tiny(std::string_view text) {
  const std::size_t exponent = text.find_first_of("eE");
  if (exponent != std::string_view::npos) return text.substr(exponent + 1).starts_with('-');
  const std::size_t first = text.find_first_not_of('-');
  return text[first] == '0' || text[first] == '.';
}

// Handles numbers that from_chars() calls out of range. They are too large, or so small that 0 or a
// subnormal number is nearest.
CsvNumber out_of_range(std::string_view text) {
  double value = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), value);
  if (read.ec == std::errc::result_out_of_range) return {0, is_tiny(text) ? nullptr : kTooLarge};
  if (std::abs(value) > static_cast<double>(std::numeric_limits<float>::max())) {
    return {0, kTooLarge};
  }
  return {static_cast<float>(value), nullptr};
}

}  // namespace

CsvNumber csv_number(std::string_view text) {
  if (text.starts_with('+') && !text.starts_with("+-")) text.remove_prefix(1);
  float value = 0;
  const char* const end = text.data() + text.size();
  const auto read = std::from_chars(text.data(), end, value);
  if (read.ec == std::errc::invalid_argument || read.ptr != end) return {0, kNoNumber};
  if (read.ec == std::errc::result_out_of_range) return out_of_range(text);
  return {value, std::isfinite(value) ? nullptr : kTooLarge};
}

}  // namespace mezzo::data
