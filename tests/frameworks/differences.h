// The differences between mezzo and the frameworks: compares data/*.json with mezzo's behaviour,
// and both with differences.json.
#pragma once

#include <compare>
#include <string>
#include <vector>

namespace mezzo::frameworks {

struct Difference {
  std::string framework;  // `PyTorch`
  std::string where;      // `autocast on CPUs, bf16`, the name of a scaler, ...
  std::string what;       // an operation, a trajectory, a question
  std::string inputs;     // for an operation: `f32`, `16 bits`, `mixed`
  std::string theirs;
  std::string ours;
  auto operator<=>(const Difference&) const = default;
};

// Every question in the data files that mezzo answers differently, in order.
std::vector<Difference> found_differences();

// A row of differences.json: differences that have the same reason.
struct KnownRow {
  std::string framework;
  std::vector<std::string> where;
  std::vector<std::string> what;
  std::vector<std::string> inputs;  // one empty string, except for operations in regions
  std::string theirs;
  std::string ours;
  std::string why;
};
std::vector<KnownRow> known_rows();
// The differences that the rows list, one by one and in order.
std::vector<Difference> differences_in(const std::vector<KnownRow>& rows);

// A table of the loss scales in the data files: their range and precision, and mezzo's.
std::string scales_table();

// The section of docs/coming_from.md from kSectionBegin to kSectionEnd, both included.
inline constexpr const char* kSectionBegin = "<!-- differences: written by frameworks_table -->";
inline constexpr const char* kSectionEnd = "<!-- end of the differences -->";
std::string section();
// The section in a text; empty if there is none.
std::string section_in(const std::string& document);

std::string read_file(const std::string& path);

}  // namespace mezzo::frameworks
