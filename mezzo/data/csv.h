// Reads numeric tables from CSV files.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "mezzo/core/tensor.h"

namespace mezzo::data {

// A column, by its name in the header or by its number: from 0, or from -1, the last, downwards.
using CsvColumn = std::variant<std::int64_t, std::string>;

// The contents of the label column.
enum class CsvLabels : std::uint8_t {
  kClasses,  // class numbers, or names of classes
  kNumbers,  // numbers, as regression targets
};

struct CsvOptions {
  char delimiter = ',';
  bool header = true;  // the first record names the columns
  // The feature columns, in this order. If empty: all columns except the label and leave_out.
  std::vector<CsvColumn> features{};
  std::vector<CsvColumn> leave_out{};  // for example row numbers, names, dates
  std::optional<CsvColumn> label{};
  CsvLabels labels = CsvLabels::kClasses;
  // The names of the classes in the order of their numbers, to number this file's classes like
  // another file's. Labels with other names are errors.
  std::vector<std::string> class_names{};
  // The value of a missing feature. If unset, a missing feature is an error, as a missing label
  // always is.
  std::optional<float> missing{};
  // Texts that mark a missing field, besides the empty field.
  std::vector<std::string> missing_words{"NA", "N/A", "NaN", "nan", "null", "NULL", "None", "?"};
};

struct CsvTable {
  Tensor features{};  // f32 [n, columns]
  Tensor labels{};    // i64 [n], or f32 [n] for kNumbers; undefined without labels
  std::vector<std::string> feature_names{};  // from the header; empty without one
  std::vector<std::string> class_names{};    // if labels are names; empty for class numbers
};

// Reads a CSV file in UTF-8, with or without a byte order mark, optionally compressed with gzip.
// Records end with LF, CRLF or CR; empty lines are skipped. Fields in double quotes may contain
// delimiters, line ends and doubled quotes. Spaces around other fields are ignored. If all labels
// are whole numbers from 0, they are class numbers and stay as they are. Otherwise they are names,
// and the classes are numbered in the sorted order of the names. Numbers are rounded to f32 once.
//
// Throws FileError, with the line (from 1) and the column, if the file cannot be read, is not CSV,
// has records of different lengths or lacks a column of the options. It also throws if a field that
// is read is missing, is not a number, or is not finite in f32. Throws ArgumentError if the options
// contradict each other.
CsvTable read_csv(const std::string& path, const CsvOptions& options = {});

// Like read_csv(), from memory; errors call the text `source`.
CsvTable parse_csv(std::string_view text, const CsvOptions& options = {},
                   std::string_view source = "memory");

}  // namespace mezzo::data
