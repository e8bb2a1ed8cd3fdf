#include "mezzo/core/dtype.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <utility>

namespace mezzo {

const char* name_of(DType dtype) {
  switch (dtype) {
    case DType::kF32: return "f32";
    case DType::kBf16: return "bf16";
    case DType::kF16: return "f16";
    case DType::kF64: return "f64";
    case DType::kI64: return "i64";
    case DType::kI32: return "i32";
    case DType::kU8: return "u8";
    case DType::kBool: return "bool";
  }
  return "?";
}

std::optional<DType> parse_dtype(std::string_view name) {
  for (const DType dtype : kAllDTypes) {
    if (name == name_of(dtype)) return dtype;
  }
  constexpr std::array<std::pair<std::string_view, DType>, 7> kOtherNames{{
      {"float32", DType::kF32},
      {"float", DType::kF32},
      {"bfloat16", DType::kBf16},
      {"float16", DType::kF16},
      {"half", DType::kF16},
      {"float64", DType::kF64},
      {"double", DType::kF64},
  }};
  for (const auto& [other, dtype] : kOtherNames) {
    if (name == other) return dtype;
  }
  return std::nullopt;
}

namespace {

// Position among the integers: a higher one holds every value of a lower one.
int integer_rank(DType dtype) {
  switch (dtype) {
    case DType::kBool: return 0;
    case DType::kU8: return 1;
    case DType::kI32: return 2;
    default: return 3;
  }
}

}  // namespace

DType promote(DType a, DType b) {
  if (a == b) return a;
  if (is_floating(a) != is_floating(b)) return is_floating(a) ? a : b;
  if (!is_floating(a)) return integer_rank(a) > integer_rank(b) ? a : b;
  if (a == DType::kF64 || b == DType::kF64) return DType::kF64;
  return DType::kF32;
}

double epsilon_of(DType dtype) {
  switch (dtype) {
    case DType::kF64: return std::numeric_limits<double>::epsilon();
    case DType::kF32: return 0x1p-23;
    case DType::kF16: return 0x1p-10;
    case DType::kBf16: return 0x1p-7;
    default: return 0;
  }
}

double max_of(DType dtype) {
  switch (dtype) {
    case DType::kF64: return std::numeric_limits<double>::max();
    case DType::kF32: return std::numeric_limits<float>::max();
    case DType::kF16: return 65504.0;
    case DType::kBf16: return 0x1.fep127;
    default: return 0;
  }
}

double within_range(double number, DType dtype) {
  if (!is_floating(dtype) || !std::isfinite(number)) return number;
  return std::clamp(number, -max_of(dtype), max_of(dtype));
}

}  // namespace mezzo
