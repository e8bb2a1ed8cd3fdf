#include "mezzo/ops/dispatcher/attrs_text.h"

#include <algorithm>

#include "mezzo/ops/dispatcher/attrs.h"

namespace mezzo {
namespace {

std::string names_of(std::span<const FieldReader> readers) {
  std::string names;
  for (const FieldReader& reader : readers) names += concat(names.empty() ? "" : ", ", reader.name);
  return names.empty() ? "none" : names;
}

}  // namespace

bool parse_text(std::string_view text, bool& value) {
  value = text == "true";
  return value || text == "false";
}

bool parse_text(std::string_view text, DType& dtype) {
  return parse_one_of<DType>(text, dtype, kAllDTypes);
}

bool parse_text(std::string_view text, Shape& shape) {
  std::vector<std::string_view> parts;
  if (!split_list(text, parts) || parts.size() > kMaxRank) return false;
  shape = Shape();
  for (const std::string_view part : parts) {
    std::int64_t size = 0;
    if (!parse_text(part, size)) return false;
    shape.push_back(size);
  }
  return true;
}

std::vector<std::string_view> split_text(std::string_view text, std::string_view separator) {
  std::vector<std::string_view> parts;
  if (text.empty()) return parts;
  std::size_t begin = 0;
  int depth = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    depth += static_cast<int>(text[i] == '[' || text[i] == '(');
    depth -= static_cast<int>(text[i] == ']' || text[i] == ')');
    if (depth != 0 || text.substr(i, separator.size()) != separator) continue;
    parts.push_back(text.substr(begin, i - begin));
    begin = i + separator.size();
  }
  parts.push_back(text.substr(begin));
  return parts;
}

bool split_list(std::string_view text, std::vector<std::string_view>& parts) {
  if (text.size() < 2 || text.front() != '[' || text.back() != ']') return false;
  parts = split_text(text.substr(1, text.size() - 2), ", ");
  return true;
}

std::string read_fields(std::string_view text, std::span<const FieldReader> readers,
                        void* aggregate) {
  std::vector<const FieldReader*> given;
  for (const std::string_view part : split_text(text, " ")) {
    const std::string_view name = part.substr(0, part.find('='));
    const auto reader = std::ranges::find(readers, name, &FieldReader::name);
    if (reader == readers.end() || name.size() == part.size()) {
      return concat("there is no attribute in \"", part, "\". Give ", names_of(readers),
                    ", each as name=value");
    }
    if (std::ranges::find(given, &*reader) != given.end()) {
      return concat("the attribute ", name, " is given twice: \"", text, "\". Leave one out");
    }
    if (!reader->read(part.substr(name.size() + 1), aggregate)) {
      return concat("the attribute ", name, " has no such value: \"", part.substr(name.size() + 1),
                    "\". Write it as Attrs::to_text() does");
    }
    given.push_back(&*reader);
  }
  for (const FieldReader& reader : readers) {
    if (std::ranges::find(given, &reader) != given.end()) continue;
    if (reader.leave_out != nullptr) {
      reader.leave_out(aggregate);
      continue;
    }
    return concat("the attribute ", reader.name, " is missing: \"", text, "\". Give ",
                  names_of(readers));
  }
  return "";
}

Attrs parse_attrs(const Attrs& like, std::string_view text, std::string_view op) {
  Attrs result = like;
  const std::string fault = result.type_->parse(text, result.bytes_.data());
  check_arg(fault.empty(), op, fault);
  return result;
}

}  // namespace mezzo
