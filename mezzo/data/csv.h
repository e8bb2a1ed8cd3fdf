// Tables of numbers from CSV files.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "mezzo/core/tensor.h"

namespace mezzo::data {

// A column by its name in the header, or by its number: from 0, or from -1, the last, downwards.
using CsvColumn = std::variant<std::int64_t, std::string>;

// What the column of labels holds.
enum class CsvLabels : std::uint8_t {
  kClasses,  // class numbers, or names of classes
  kNumbers,  // numbers to be met, as in a regression
};

struct CsvOptions {
  char delimiter = ',';
  bool header = true;  // the first record names the columns
  // In this order; if there are none, all columns but the label and those that are left out.
  std::vector<CsvColumn> features{};
  std::vector<CsvColumn> leave_out{};  // numbers of rows, names, dates
  std::optional<CsvColumn> label{};
  CsvLabels labels = CsvLabels::kClasses;
  // The names of the classes in the order of their numbers: for a file that must be numbered as
  // another one was. Labels that are not among them are errors.
  std::vector<std::string> class_names{};
  // What a feature that is missing becomes; without it, a missing one is an error, as a missing
  // label always is.
  std::optional<float> missing{};
  // Fields that are missing, besides empty ones.
  std::vector<std::string> missing_words{"NA", "N/A", "NaN", "nan", "null", "NULL", "None", "?"};
};

struct CsvTable {
  Tensor features{};  // f32 [n, columns]
  Tensor labels{};    // i64 [n], f32 [n] of kNumbers; undefined if there are none
  std::vector<std::string> feature_names{};  // by the header; empty if there is none
  std::vector<std::string> class_names{};    // of labels that are names; empty for class numbers
};

// Reads a CSV file in UTF-8, with or without a byte order mark, also compressed with gzip. Records
// end with LF, CRLF or CR; empty lines are passed over. Fields in double quotes may contain
// delimiters, line ends and, doubled, quotes. Spaces around other fields do not count. Labels that
// are all whole numbers from 0 are class numbers and stay what they are; otherwise they are names,
// and the classes are numbered in the sorted order of these. Numbers are rounded to f32 once.
//
// Throws FileError, with the line (from 1) and the column, if the file cannot be read, is not CSV,
// or has records of different numbers of fields, if a column of the options is not there, or a
// field that is read is missing, is no number, or none that is finite in f32; ArgumentError if the
// options contradict each other.
CsvTable read_csv(const std::string& path, const CsvOptions& options = {});

// The same from memory; `source` stands for the file in errors.
CsvTable parse_csv(std::string_view text, const CsvOptions& options = {},
                   std::string_view source = "memory");

}  // namespace mezzo::data
