#include "mezzo/cli/table.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

namespace mezzo::cli {
namespace {

bool is_number(const std::string& cell) {
  return cell.find_first_of("0123456789-") == 0 || cell == "nan" || cell == "inf";
}

// How wide a column is, and whether it holds numbers, which are aligned to the right.
struct Column {
  std::size_t width = 0;
  bool numbers = true;

  void add(const std::string& cell, bool is_header) {
    width = std::max(width, cell.size());
    if (!is_header && !is_number(cell)) numbers = false;
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

}  // namespace

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
