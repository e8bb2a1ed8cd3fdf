#include "mezzo/core/dtype.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace mezzo {

std::optional<DType> parse_dtype(std::string_view name) {
  for (const DTypeInfo& info : kDTypes) {
    const bool is_other =
        !name.empty() && std::ranges::find(info.other_names, name) != info.other_names.end();
    if (name == info.name || is_other) return info.dtype;
  }
  return std::nullopt;
}

namespace {

// The rank of an integer dtype: a dtype of higher rank holds every value of those below.
int integer_rank(DType dtype) {
  switch (dtype) {
    case DType::kBool: return 0;
    case DType::kU8: return 1;
    case DType::kI32: return 2;
    default: return 3;
  }
}

}  // namespace

namespace {

std::string names_of(bool (*is_meant)(DType), std::string_view joint) {
  std::vector<std::string> names;
  for (const DType dtype : kAllDTypes) {
    if (is_meant(dtype)) names.emplace_back(name_of(dtype));
  }
  std::string text = names.front();
  for (std::size_t i = 1; i + 1 < names.size(); ++i) text += ", " + names[i];
  if (names.size() > 1) text.append(" ").append(joint).append(" ").append(names.back());
  return text;
}

}  // namespace

std::string lower_dtypes(std::string_view joint) { return names_of(is_lower, joint); }
std::string trainable_dtypes(std::string_view joint) { return names_of(is_trainable, joint); }

DType promote(DType a, DType b) {
  if (a == b) return a;
  if (is_floating(a) != is_floating(b)) return is_floating(a) ? a : b;
  if (!is_floating(a)) return integer_rank(a) > integer_rank(b) ? a : b;
  if (a == DType::kF64 || b == DType::kF64) return DType::kF64;
  return DType::kF32;
}

double within_range(double number, DType dtype) {
  if (!is_floating(dtype) || !std::isfinite(number)) return number;
  return std::clamp(number, -max_of(dtype), max_of(dtype));
}

}  // namespace mezzo
