#include "mezzo/data/csv.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <functional>
#include <map>

#include "mezzo/core/error.h"
#include "mezzo/data/byte_reader.h"
#include "mezzo/data/csv_records.h"
#include "mezzo/data/names.h"

namespace mezzo::data {
namespace {

using Fields = std::vector<std::string_view>;

void check_options(const CsvOptions& options) {
  const std::string_view never = "\"\r\n";
  check_arg(never.find(options.delimiter) == std::string_view::npos, kCsvOp,
            "a quote or a line end cannot be the delimiter. Give another one");
  check_arg(options.features.empty() || options.leave_out.empty(), kCsvOp,
            "features names the columns to read, and leave_out those to leave out. Give only one "
            "of them");
  check_arg(options.class_names.empty() ||
                (options.label.has_value() && options.labels == CsvLabels::kClasses),
            kCsvOp, "there are names of classes, but no column of classes. Give it as the label");
}

// Numbers the label names in the order in which they occur.
class ClassNumbers {
 public:
  explicit ClassNumbers(const std::vector<std::string>& known) : is_fixed_(!known.empty()) {
    for (const std::string& name : known) add(name);
    check_arg(numbers_.size() == known.size(), kCsvOp,
              "two classes have the same name. Use each name once");
  }

  // Returns false for an unknown name if the names are given.
  bool read(std::string_view name) {
    auto found = numbers_.find(name);
    if (found == numbers_.end()) {
      if (is_fixed_) return false;
      found = add(std::string(name));
    }
    labels_.push_back(found->second);
    return true;
  }

  // Class numbers stay as they are; names are sorted, unless their order is given.
  void finish(CsvTable& table) {
    std::vector<std::int64_t> meaning(numbers_.size());
    if (is_fixed_ || !read_numbers(meaning)) {
      std::int64_t next = 0;
      table.class_names.resize(numbers_.size());
      for (const auto& [name, number] : numbers_) {
        const std::int64_t place = is_fixed_ ? number : next++;
        meaning[static_cast<std::size_t>(number)] = place;
        table.class_names[static_cast<std::size_t>(place)] = name;
      }
    }
    for (std::int64_t& label : labels_) label = meaning[static_cast<std::size_t>(label)];
    table.labels = from_values(labels_, {std::ssize(labels_)});
  }

 private:
  using Numbers = std::map<std::string, std::int64_t, std::less<>>;

  Numbers::iterator add(std::string name) {
    return numbers_.emplace(std::move(name), std::ssize(numbers_)).first;
  }

  bool read_numbers(std::vector<std::int64_t>& meaning) const {
    for (const auto& [name, number] : numbers_) {
      std::int64_t& value = meaning[static_cast<std::size_t>(number)];
      const char* const end = name.data() + name.size();
      const auto read = std::from_chars(name.data(), end, value);
      if (read.ec != std::errc() || read.ptr != end || value < 0) return false;
    }
    return true;
  }

  bool is_fixed_;
  Numbers numbers_;
  std::vector<std::int64_t> labels_;
};

class TableReader {
 public:
  TableReader(std::string_view text, const CsvOptions& options, std::string_view source)
      : options_(options),
        source_(source),
        records_(text, options.delimiter, source),
        classes_(options.class_names) {}

  CsvTable read() {
    Fields fields;
    bool found = records_.next(fields);
    if (found && options_.header) {
      header_.assign(fields.begin(), fields.end());
      header_line_ = records_.line();
      columns_ = fields.size();
      choose_columns();
      found = records_.next(fields);
    } else if (found) {
      columns_ = fields.size();
      header_line_ = records_.line();
      choose_columns();
    }
    if (!found)
      fail<FileError>(kCsvOp, source_, ": there are no records. Give a file that has some");
    do {
      read_record(fields);
    } while (records_.next(fields));
    return table();
  }

 private:
  template <class... Parts>
  [[noreturn]] void fail_at(std::size_t column, const Parts&... parts) const {
    fail<FileError>(kCsvOp, source_, ": line ", records_.line(), ", column ",
                    header_.empty() ? concat(column) : header_[column], ": ", parts...);
  }

  std::size_t column_of(const CsvColumn& column) const {
    const auto count = static_cast<std::int64_t>(columns_);
    if (const auto* number = std::get_if<std::int64_t>(&column)) {
      if (*number < -count || *number >= count) {
        fail<FileError>(kCsvOp, source_, ": there is no column ", *number, " of ", count,
                        ". Columns count from 0");
      }
      return static_cast<std::size_t>(*number < 0 ? *number + count : *number);
    }
    const auto& name = std::get<std::string>(column);
    check_arg(options_.header, kCsvOp, "without a header no column has the name ", name,
              ". Give its number");
    const auto times = std::ranges::count(header_, name);
    if (times != 1) {
      fail<FileError>(kCsvOp, source_, ": there ",
                      times == 0 ? "is no column " : "are two columns ", name, ". The columns are ",
                      first_names(header_));
    }
    return static_cast<std::size_t>(std::ranges::find(header_, name) - header_.begin());
  }

  void choose_columns() {
    if (options_.label.has_value()) label_ = column_of(*options_.label);
    for (const CsvColumn& column : options_.features) features_.push_back(column_of(column));
    if (features_.empty()) choose_all_features();
    check_arg(!label_.has_value() || std::ranges::count(features_, *label_) == 0, kCsvOp,
              "the label is a feature as well. Take it out of the features");
  }

  void choose_all_features() {
    std::vector<bool> is_out(columns_);
    for (const CsvColumn& column : options_.leave_out) is_out[column_of(column)] = true;
    if (label_.has_value()) is_out[*label_] = true;
    for (std::size_t c = 0; c < columns_; ++c) {
      if (!is_out[c]) features_.push_back(c);
    }
    if (features_.empty()) {
      fail<FileError>(kCsvOp, source_,
                      ": there is no column besides the label and those that are left out. Check "
                      "the delimiter");
    }
  }

  void read_record(const Fields& fields) {
    if (fields.size() != columns_) {
      fail<FileError>(kCsvOp, source_, ": line ", records_.line(), ": the number of fields is ",
                      fields.size(), ", and in line ", header_line_, " it is ", columns_,
                      ". Check the delimiter, and put fields that contain it in quotes");
    }
    for (const std::size_t c : features_) values_.push_back(feature_of(fields[c], c));
    if (label_.has_value()) read_label(fields[*label_], *label_);
    ++rows_;
  }

  bool is_missing(std::string_view field) const {
    return field.empty() || std::ranges::count(options_.missing_words, field) > 0;
  }

  float number_of(std::string_view field, std::size_t column) const {
    const CsvNumber number = csv_number(field);
    if (number.fault != nullptr) {
      fail_at(column, shown_field(field), " ", number.fault,
              ". Correct it, or leave the column out");
    }
    return number.value;
  }

  float feature_of(std::string_view field, std::size_t column) const {
    if (!is_missing(field)) return number_of(field, column);
    if (!options_.missing.has_value()) {
      fail_at(column, "a value is missing. Fill it in, or set its replacement in `missing`");
    }
    return *options_.missing;
  }

  void read_label(std::string_view field, std::size_t column) {
    if (is_missing(field)) fail_at(column, "the label is missing. Fill it in, or remove the line");
    if (options_.labels == CsvLabels::kNumbers) {
      targets_.push_back(number_of(field, column));
    } else if (!classes_.read(field)) {
      fail_at(column, shown_field(field), " is not one of the classes ",
              first_names(options_.class_names), ". Correct it, or list all classes");
    }
  }

  CsvTable table() {
    CsvTable table;
    table.features = from_values(values_, {rows_, std::ssize(features_)});
    for (const std::size_t c : features_) {
      if (options_.header) table.feature_names.push_back(header_[c]);
    }
    if (!label_.has_value()) return table;
    if (options_.labels == CsvLabels::kNumbers) {
      table.labels = from_values(targets_, {rows_});
    } else {
      classes_.finish(table);
    }
    return table;
  }

  const CsvOptions& options_;
  std::string_view source_;
  CsvRecords records_;
  std::vector<std::string> header_;  // empty if the options say that there is none
  std::int64_t header_line_ = 0;     // determines the number of columns
  std::size_t columns_ = 0;
  std::vector<std::size_t> features_;
  std::optional<std::size_t> label_;
  std::int64_t rows_ = 0;
  std::vector<float> values_;
  std::vector<float> targets_;
  ClassNumbers classes_;
};

}  // namespace

CsvTable parse_csv(std::string_view text, const CsvOptions& options, std::string_view source) {
  check_options(options);
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);
  if (text.starts_with("\xFF\xFE") || text.starts_with("\xFE\xFF")) {
    fail<FileError>(kCsvOp, source, ": this is UTF-16. Save the file as UTF-8");
  }
  return TableReader(text, options, source).read();
}

CsvTable read_csv(const std::string& path, const CsvOptions& options) {
  constexpr std::size_t kChunk = 1 << 20;
  ByteReader reader(path, kCsvOp);
  std::vector<std::uint8_t> text;
  std::size_t used = 0;
  for (std::size_t got = kChunk; got == kChunk; used += got) {
    text.resize(used + kChunk);
    got = reader.read(text.data() + used, kChunk);
  }
  if (reader.ends_early()) {
    fail<FileError>(kCsvOp, path, ": the compressed data ends early", kCopyAgain);
  }
  return parse_csv({reinterpret_cast<const char*>(text.data()), used}, options, path);
}

}  // namespace mezzo::data
