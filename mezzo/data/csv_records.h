// The records of CSV text, and the numbers in their fields.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

namespace mezzo::data {

inline constexpr std::string_view kCsvOp = "csv";

// Takes text apart into records, in order.
class CsvRecords {
 public:
  // All that is given must outlive the object. `source` names the text in errors.
  CsvRecords(std::string_view text, char delimiter, std::string_view source)
      : text_(text), delimiter_(delimiter), source_(source) {}

  // The fields of the next record, without quotes; they are there until the next call. False at the
  // end of the text. Throws FileError for a quoted field that does not end, or does not end at a
  // delimiter.
  bool next(std::vector<std::string_view>& fields);
  // The line in which that record begins, from 1.
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
  std::deque<std::string> unquoted_;  // fields of this record with quotes inside
};

// A number, or what is wrong with the text: null if nothing is.
struct CsvNumber {
  float value = 0;
  const char* fault = nullptr;
};
// The f32 next to a decimal number such as `-1.5e3` or `+2`.
CsvNumber csv_number(std::string_view text);

// The field as messages show it: at most 40 bytes, without what would break a line.
std::string shown_field(std::string_view field);

}  // namespace mezzo::data
