// The records of CSV text, and the numbers in their fields.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

namespace mezzo::data {

inline constexpr std::string_view kCsvOp = "csv";

// Splits text into records, in order.
class CsvRecords {
 public:
  // All arguments must outlive the object. Errors call the text `source`.
  CsvRecords(std::string_view text, char delimiter, std::string_view source)
      : text_(text), delimiter_(delimiter), source_(source) {}

  // Reads the fields of the next record, without quotes; they stay valid until the next call.
  // Returns false at the end of the text. Throws FileError for a quoted field that does not end, or
  // does not end at a delimiter.
  bool next(std::vector<std::string_view>& fields);
  // The line in which the last record begins, from 1.
  std::int64_t line() const { return line_; }

 private:
  bool is_at_end() const { return at_ == text_.size(); }
  bool is_at_line_end() const { return text_[at_] == '\n' || text_[at_] == '\r'; }
  void pass_line_end();
  std::string_view read_field();
  std::string_view read_plain();
  std::string_view read_quoted();

  std::string_view text_;
  char delimiter_;
  std::string_view source_;
  std::size_t at_ = 0;
  std::int64_t line_ = 0;
  std::int64_t lines_passed_ = 0;
  std::deque<std::string> unquoted_;  // fields of this record that contain quotes
};

// A number, or the fault of its text (null if there is none).
struct CsvNumber {
  float value = 0;
  const char* fault = nullptr;
};
// Parses a decimal number such as `-1.5e3` or `+2`, rounded to f32.
CsvNumber csv_number(std::string_view text);

// A field as messages show it: at most 40 bytes, without line breaks.
std::string shown_field(std::string_view field);

}  // namespace mezzo::data
