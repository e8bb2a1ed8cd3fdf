#include "mezzo/cli/table.h"

#include <algorithm>
#include <cmath>
#include <sstream>
#include <utility>

#include <fmt/format.h>

namespace mezzo::cli {
namespace {

bool is_number(const std::string& cell) {
  return cell.find_first_of("0123456789-") == 0 || cell == "nan" || cell == "inf";
}

// The width of a column, and whether it holds numbers, which are right-aligned.
struct Column {
  std::size_t width = 0;
  bool numbers = true;

  void add(const std::string& cell, bool is_header) {
    width = std::max(width, cell.size());
    if (!is_header && !cell.empty() && !is_number(cell)) numbers = false;
  }
};

std::string format_row(const std::vector<std::string>& cells, const std::vector<Column>& columns) {
  std::string text;
  for (std::size_t i = 0; i < cells.size(); ++i) {
    text += i == 0 ? "" : "  ";
    text += columns[i].numbers ? fmt::format("{:>{}}", cells[i], columns[i].width)
                               : fmt::format("{:<{}}", cells[i], columns[i].width);
  }
  return text.substr(0, text.find_last_not_of(' ') + 1) + '\n';
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

using Rows = std::vector<std::vector<std::string>>;

std::vector<std::size_t> widths_of(const Rows& rows) {
  std::vector<std::size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  return widths;
}

// Divides the width that the other columns leave among those in `wrapped`. The unused share of
// narrow columns goes to wider ones.
std::vector<std::size_t> shared_widths(std::vector<std::size_t> widths, std::size_t width,
                                       std::vector<std::size_t> wrapped) {
  constexpr std::size_t kLeast = 12;
  std::size_t taken = widths.empty() ? 0 : 2 * (widths.size() - 1);
  for (std::size_t i = 0; i < widths.size(); ++i) {
    if (std::ranges::find(wrapped, i) == wrapped.end()) taken += widths[i];
  }
  std::size_t left = width > taken ? width - taken : 0;
  std::ranges::sort(wrapped, {}, [&](std::size_t column) { return widths[column]; });
  for (std::size_t i = 0; i < wrapped.size(); ++i) {
    const std::size_t share = std::max(left / (wrapped.size() - i), kLeast);
    widths[wrapped[i]] = std::min(widths[wrapped[i]], share);
    left -= std::min(left, widths[wrapped[i]]);
  }
  return widths;
}

// The lines of a row whose cells are wrapped.
Rows wrapped_row(const std::vector<std::string>& row, const std::vector<std::size_t>& widths,
                 const std::vector<std::size_t>& wrapped) {
  Rows lines{row};
  for (const std::size_t column : wrapped) {
    if (column >= row.size()) continue;
    const std::vector<std::string> parts = lines_of(wrap(row[column], widths[column]));
    while (lines.size() < parts.size()) lines.emplace_back(row.size());
    for (std::size_t i = 0; i < parts.size(); ++i) lines[i][column] = parts[i];
  }
  return lines;
}

}  // namespace

std::size_t width_of(const std::string& text) {
  std::size_t width = 0;
  for (const std::string& line : lines_of(text)) width = std::max(width, line.size());
  return width;
}

std::string wrap(const std::string& text, std::size_t width, std::size_t indent) {
  std::string result;
  std::size_t column = indent;
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    if (column > indent && column + 1 + word.size() > width) {
      result += '\n' + std::string(indent, ' ');
      column = indent;
    } else if (!result.empty()) {
      result += ' ';
      ++column;
    }
    result += word;
    column += word.size();
  }
  return result;
}

std::string format_table(const Rows& rows, std::size_t width,
                         const std::vector<std::size_t>& wrapped) {
  const std::vector<std::size_t> widths = shared_widths(widths_of(rows), width, wrapped);
  Rows lines;
  for (const auto& row : rows) {
    for (auto& line : wrapped_row(row, widths, wrapped)) lines.push_back(std::move(line));
  }
  return format_table(lines);
}

std::string format_table(const std::vector<std::vector<std::string>>& rows) {
  std::vector<Column> columns;
  for (std::size_t r = 0; r < rows.size(); ++r) {
    columns.resize(std::max(columns.size(), rows[r].size()));
    for (std::size_t i = 0; i < rows[r].size(); ++i) columns[i].add(rows[r][i], r == 0);
  }
  std::string text;
  for (std::size_t r = 0; r < rows.size(); ++r) {
    text += format_row(rows[r], columns);
    if (r > 0) continue;
    std::vector<std::string> rules;
    rules.reserve(columns.size());
    for (const Column& column : columns) rules.emplace_back(column.width, '-');
    text += format_row(rules, columns);
  }
  return text;
}

double without_sign(double loss) { return std::isnan(loss) ? std::fabs(loss) : loss; }

std::string format_bytes(std::int64_t bytes) {
  const auto value = static_cast<double>(bytes);
  if (value >= 1e9) return fmt::format("{:.2f} GB", value / 1e9);
  return fmt::format("{:.1f} MB", value / 1e6);
}

}  // namespace mezzo::cli
