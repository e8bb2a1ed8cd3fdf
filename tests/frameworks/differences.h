// Where mezzo and the frameworks differ: what data/*.json say against what mezzo does, and what
// differences.json says about it.
#pragma once

#include <compare>
#include <string>
#include <vector>

namespace mezzo::frameworks {

struct Difference {
  std::string framework;  // `PyTorch`
  std::string where;      // `autocast on CPUs, bf16`, the name of a scaler, ...
  std::string what;       // an operation, a trajectory, a question
  std::string inputs;     // of an operation: `f32`, `16 bits`, `mixed`
  std::string theirs;
  std::string ours;
  auto operator<=>(const Difference&) const = default;
};

// Every question of the data files that has another answer here, in order.
std::vector<Difference> found_differences();

// A row of differences.json: differences that have one reason.
struct KnownRow {
  std::string framework;
  std::vector<std::string> where;
  std::vector<std::string> what;
  std::vector<std::string> inputs;  // one empty string but for operations in regions
  std::string theirs;
  std::string ours;
  std::string why;
};
std::vector<KnownRow> known_rows();
// What the rows say, one by one and in order.
std::vector<Difference> differences_in(const std::vector<KnownRow>& rows);

// The loss scales of the data files as a table: their range and precision, and mezzo's.
std::string scales_table();

// The section of docs/coming_from.md between kSectionBegin and kSectionEnd, which it includes.
inline constexpr const char* kSectionBegin = "<!-- differences: written by frameworks_table -->";
inline constexpr const char* kSectionEnd = "<!-- end of the differences -->";
std::string section();
// The same section as it stands in a text; empty if there is none.
std::string section_in(const std::string& document);

std::string read_file(const std::string& path);

}  // namespace mezzo::frameworks
