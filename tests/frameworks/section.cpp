// Writes the differences and the loss scales of all frameworks as a section of a document.
#include "mezzo/core/error.h"
#include "tests/frameworks/differences.h"

namespace mezzo::frameworks {
namespace {

std::string joined(const std::vector<std::string>& parts, const char* quote, const char* between) {
  std::string text;
  for (const std::string& part : parts) {
    text += concat(text.empty() ? "" : between, quote, part, quote);
  }
  return text;
}

std::string row_text(const KnownRow& row) {
  // Names from code are quoted, plain words are not.
  const bool is_code = !row.inputs.front().empty() || row.where.front().starts_with("lists");
  return concat("| ", joined(row.where, "", "; "), " | ",
                joined(row.what, is_code ? "`" : "", ", "), " | ", joined(row.inputs, "", ", "),
                " | ", row.theirs, " | ", row.ours, " | ", row.why, " |\n");
}

constexpr const char* kIntroduction =
    "What programs asked the frameworks themselves is in `tests/frameworks/data/`, what differs "
    "and\n"
    "why in `tests/frameworks/differences.json`; this section is written from both, and a test\n"
    "compares them with what mezzo does. Where a framework is asked about an operation and it is "
    "not\n"
    "named here, the dtype is the same.\n\n"
    "*inputs*: `mixed` are 16-bit activations beside f32 parameters or a second f32 operand. "
    "*there*\n"
    "and *here*: the dtype of the result; `f32 from 16 bits` if an f32 input was rounded first.\n"
    "Scales are those after each step, or after many of the same kind.\n";

constexpr const char* kTableHead =
    "\n| where | what | inputs | there | here | why |\n|---|---|---|---|---|---|\n";

}  // namespace

std::string section() {
  std::string text = concat(kSectionBegin, "\n", kIntroduction, "\n", scales_table());
  std::string framework;
  for (const KnownRow& row : known_rows()) {
    if (row.framework != framework) text += concat("\n### ", row.framework, "\n", kTableHead);
    framework = row.framework;
    text += row_text(row);
  }
  return text + kSectionEnd;
}

std::string section_in(const std::string& document) {
  const auto begin = document.find(kSectionBegin);
  const auto end = document.find(kSectionEnd);
  if (begin == std::string::npos || end == std::string::npos) return {};
  return document.substr(begin, end - begin) + kSectionEnd;
}

}  // namespace mezzo::frameworks
