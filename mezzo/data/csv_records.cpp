#include "mezzo/data/csv_records.h"

#include <algorithm>

#include "mezzo/core/error.h"

namespace mezzo::data {
namespace {

constexpr std::string_view kSpaces = " \t";

std::string_view trimmed(std::string_view text) {
  const std::size_t first = text.find_first_not_of(kSpaces);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kSpaces) - first + 1);
}

// CRLF counts as one line end.
std::int64_t line_ends_in(std::string_view text) {
  std::int64_t count = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool is_crlf = text[i] == '\r' && i + 1 < text.size() && text[i + 1] == '\n';
    count += (text[i] == '\n' || text[i] == '\r') && !is_crlf ? 1 : 0;
  }
  return count;
}

}  // namespace

bool CsvRecords::next(std::vector<std::string_view>& fields) {
  fields.clear();
  unquoted_.clear();
  while (!is_at_end() && is_at_line_end()) pass_line_end();
  if (is_at_end()) return false;
  line_ = lines_passed_ + 1;
  fields.push_back(read_field());
  while (!is_at_end() && !is_at_line_end()) {
    ++at_;  // the delimiter
    fields.push_back(read_field());
  }
  if (!is_at_end()) pass_line_end();
  return true;
}

void CsvRecords::pass_line_end() {
  const bool is_crlf = text_.substr(at_).starts_with("\r\n");
  at_ += is_crlf ? 2 : 1;
  ++lines_passed_;
}

std::string_view CsvRecords::read_field() {
  return !is_at_end() && text_[at_] == '"' ? read_quoted() : read_plain();
}

std::string_view CsvRecords::read_plain() {
  const std::size_t begin = at_;
  while (!is_at_end() && text_[at_] != delimiter_ && !is_at_line_end()) ++at_;
  return trimmed(text_.substr(begin, at_ - begin));
}

std::string_view CsvRecords::read_quoted() {
  const std::int64_t opened = lines_passed_ + 1;
  const std::size_t begin = ++at_;
  bool has_quotes = false;
  for (;; at_ += 2, has_quotes = true) {  // past a doubled quote
    at_ = text_.find('"', at_);
    if (at_ == std::string_view::npos) {
      fail<FileError>(kCsvOp, source_, ": line ", opened,
                      ": a quoted field does not end. Close it with a quote, and double quotes "
                      "that belong to the field");
    }
    if (!text_.substr(at_).starts_with("\"\"")) break;
  }
  const std::string_view field = text_.substr(begin, at_ - begin);
  ++at_;
  lines_passed_ += line_ends_in(field);
  if (!is_at_end() && text_[at_] != delimiter_ && !is_at_line_end()) {
    fail<FileError>(
        kCsvOp, source_, ": line ", lines_passed_ + 1,
        ": text follows the closing quote of a field. Double quotes that belong to the field");
  }
  if (!has_quotes) return field;
  std::string& text = unquoted_.emplace_back();
  for (std::size_t i = 0; i < field.size(); ++i) {
    text += field[i];
    if (field[i] == '"') ++i;
  }
  return text;
}

std::string shown_field(std::string_view field) {
  constexpr std::size_t kMost = 40;
  std::string shown(field.substr(0, kMost));
  std::ranges::replace_if(
      shown, [](char c) { return static_cast<unsigned char>(c) < ' '; }, '?');
  if (field.size() > kMost) shown += "...";
  return concat('`', shown, '`');
}

}  // namespace mezzo::data
