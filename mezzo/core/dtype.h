// The element types of tensors.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>

#include "mezzo/core/float8.h"
#include "mezzo/core/half.h"

namespace mezzo {

enum class DType : std::uint8_t { kF32, kBf16, kF16, kE4m3, kE5m2, kF64, kI64, kI32, kU8, kBool };

enum class NumberKind : std::uint8_t { kFloating, kInteger, kBool };

// The properties of an element type.
// NOLINTNEXTLINE(clang-analyzer-optin.performance.Padding): in the order in which rows are read
struct DTypeInfo {
  DType dtype;
  const char* name;  // in logs, errors, options and files
  // Other names that options accept: those of PyTorch and NumPy.
  std::array<std::string_view, 2> other_names{};
  std::size_t bytes;
  NumberKind kind;
  double largest = 0;  // the largest finite value of a floating type
  double epsilon = 0;  // the distance from 1 to the next larger number; 0 for integers
  // The dtype in which its elements are summed. A sum in a lower precision stops growing when an
  // element is less than half a unit in its last place.
  DType accumulates_in = dtype;
  // True for a precision that a policy may choose instead of f32.
  bool is_lower = false;
};

// One row for each element type, in the order of the enumeration. To add a type, add a row here, a
// C++ type with its conversions (half.h), and a line each in kDTypeOf and visit_dtype().
inline constexpr DTypeInfo kDTypes[] = {
    {.dtype = DType::kF32,
     .name = "f32",
     .other_names = {"float32", "float"},
     .bytes = 4,
     .kind = NumberKind::kFloating,
     .largest = 0x1.fffffep127,
     .epsilon = 0x1p-23,
     .accumulates_in = DType::kF32},
    {.dtype = DType::kBf16,
     .name = "bf16",
     .other_names = {"bfloat16"},
     .bytes = 2,
     .kind = NumberKind::kFloating,
     .largest = 0x1.fep127,
     .epsilon = 0x1p-7,
     .accumulates_in = DType::kF32,
     .is_lower = true},
    {.dtype = DType::kF16,
     .name = "f16",
     .other_names = {"float16", "half"},
     .bytes = 2,
     .kind = NumberKind::kFloating,
     .largest = 65504,
     .epsilon = 0x1p-10,
     .accumulates_in = DType::kF32,
     .is_lower = true},
    {.dtype = DType::kE4m3,
     .name = "e4m3",
     .other_names = {"float8_e4m3fn", "fp8_e4m3"},
     .bytes = 1,
     .kind = NumberKind::kFloating,
     .largest = 448,
     .epsilon = 0x1p-3,
     .accumulates_in = DType::kF32},
    {.dtype = DType::kE5m2,
     .name = "e5m2",
     .other_names = {"float8_e5m2", "fp8_e5m2"},
     .bytes = 1,
     .kind = NumberKind::kFloating,
     .largest = 57344,
     .epsilon = 0x1p-2,
     .accumulates_in = DType::kF32},
    {.dtype = DType::kF64,
     .name = "f64",
     .other_names = {"float64", "double"},
     .bytes = 8,
     .kind = NumberKind::kFloating,
     .largest = std::numeric_limits<double>::max(),
     .epsilon = std::numeric_limits<double>::epsilon(),
     .accumulates_in = DType::kF64},
    {.dtype = DType::kI64,
     .name = "i64",
     .bytes = 8,
     .kind = NumberKind::kInteger,
     .accumulates_in = DType::kI64},
    {.dtype = DType::kI32,
     .name = "i32",
     .bytes = 4,
     .kind = NumberKind::kInteger,
     .accumulates_in = DType::kI64},
    {.dtype = DType::kU8,
     .name = "u8",
     .bytes = 1,
     .kind = NumberKind::kInteger,
     .accumulates_in = DType::kI64},
    {.dtype = DType::kBool,
     .name = "bool",
     .bytes = 1,
     .kind = NumberKind::kBool,
     .accumulates_in = DType::kI64},
};

constexpr const DTypeInfo& info_of(DType dtype) { return kDTypes[static_cast<std::size_t>(dtype)]; }

namespace detail {

constexpr bool rows_are_in_order() {
  for (std::size_t i = 0; i < std::size(kDTypes); ++i) {
    if (static_cast<std::size_t>(kDTypes[i].dtype) != i) return false;
  }
  return true;
}
static_assert(rows_are_in_order(), "info_of() takes the number of a dtype for that of its row");

template <bool kOnlyLower>
constexpr std::size_t count_dtypes() {
  return static_cast<std::size_t>(std::ranges::count_if(
      kDTypes, [](const DTypeInfo& info) { return !kOnlyLower || info.is_lower; }));
}

template <bool kOnlyLower>
constexpr auto list_dtypes() {
  std::array<DType, count_dtypes<kOnlyLower>()> list{};
  std::size_t count = 0;
  for (const DTypeInfo& info : kDTypes) {
    if (!kOnlyLower || info.is_lower) list[count++] = info.dtype;
  }
  return list;
}

}  // namespace detail

inline constexpr auto kAllDTypes = detail::list_dtypes<false>();
// The lower precisions of mixed precision.
inline constexpr auto kLowerDTypes = detail::list_dtypes<true>();

constexpr const char* name_of(DType dtype) { return info_of(dtype).name; }

// Parses a dtype's name or one of its other names. Empty if unknown.
std::optional<DType> parse_dtype(std::string_view name);

// Bytes of one element.
constexpr std::size_t size_of(DType dtype) { return info_of(dtype).bytes; }

constexpr bool is_floating(DType dtype) { return info_of(dtype).kind == NumberKind::kFloating; }

constexpr bool is_lower(DType dtype) { return info_of(dtype).is_lower; }

// True for the floating types of eight bits. They store operands of products, with a scale beside
// them (ops/scaled_cast.h). No other operation computes with them.
constexpr bool is_eight_bit(DType dtype) { return is_floating(dtype) && size_of(dtype) == 1; }

// True for the floating types in which gradients are computed: all but those of eight bits.
constexpr bool can_have_gradients(DType dtype) {
  return is_floating(dtype) && !is_eight_bit(dtype);
}

// True for the dtypes in which networks are trained: f32 and the lower precisions.
constexpr bool is_trainable(DType dtype) { return dtype == DType::kF32 || is_lower(dtype); }

// The names of the lower precisions, and of the dtypes in which networks are trained, for messages:
// `bf16 or f16`, `f32, bf16 or f16`. `joint` stands before the last.
std::string lower_dtypes(std::string_view joint = "or");
std::string trainable_dtypes(std::string_view joint = "or");

// True if values in f32's range may overflow to infinity in that floating type.
constexpr bool has_narrow_range(DType dtype) {
  return info_of(dtype).largest < info_of(DType::kBf16).largest;
}

// The type that holds the values of both: f64 over f32 over {bf16, f16, e4m3, e5m2}, any float over
// any integer, i64 over i32 over u8 over bool. bf16 with f16 gives f32, since neither holds the
// other. So does a type of eight bits with any other: bf16 and f16 both hold its numbers, and a
// choice between them would make the result depend on the order of several promotions.
DType promote(DType a, DType b);

constexpr double epsilon_of(DType dtype) { return info_of(dtype).epsilon; }

constexpr double max_of(DType dtype) { return info_of(dtype).largest; }

// Clamps a finite number to the range of a floating type. Other numbers are returned as they are.
double within_range(double number, DType dtype);

namespace detail {

template <class T>
struct DTypeOf;
template <>
struct DTypeOf<float> : std::integral_constant<DType, DType::kF32> {};
template <>
struct DTypeOf<BFloat16> : std::integral_constant<DType, DType::kBf16> {};
template <>
struct DTypeOf<Float16> : std::integral_constant<DType, DType::kF16> {};
template <>
struct DTypeOf<Float8E4M3> : std::integral_constant<DType, DType::kE4m3> {};
template <>
struct DTypeOf<Float8E5M2> : std::integral_constant<DType, DType::kE5m2> {};
template <>
struct DTypeOf<double> : std::integral_constant<DType, DType::kF64> {};
template <>
struct DTypeOf<std::int64_t> : std::integral_constant<DType, DType::kI64> {};
template <>
struct DTypeOf<std::int32_t> : std::integral_constant<DType, DType::kI32> {};
template <>
struct DTypeOf<std::uint8_t> : std::integral_constant<DType, DType::kU8> {};
template <>
struct DTypeOf<bool> : std::integral_constant<DType, DType::kBool> {};

}  // namespace detail

// The dtype whose elements are T. Other C++ types cannot be in a tensor.
template <class T>
inline constexpr DType kDTypeOf = detail::DTypeOf<T>::value;

// Calls function.template operator()<T>() with the C++ type of `dtype`.
template <class Function>
decltype(auto) visit_dtype(DType dtype, Function&& function) {
  switch (dtype) {
    case DType::kF32: return function.template operator()<float>();
    case DType::kBf16: return function.template operator()<BFloat16>();
    case DType::kF16: return function.template operator()<Float16>();
    case DType::kE4m3: return function.template operator()<Float8E4M3>();
    case DType::kE5m2: return function.template operator()<Float8E5M2>();
    case DType::kF64: return function.template operator()<double>();
    case DType::kI64: return function.template operator()<std::int64_t>();
    case DType::kI32: return function.template operator()<std::int32_t>();
    case DType::kU8: return function.template operator()<std::uint8_t>();
    case DType::kBool: return function.template operator()<bool>();
  }
  return function.template operator()<float>();
}

// Like visit_dtype(), for the lower precisions alone. Any other dtype is taken for the last of
// them.
template <class Function>
decltype(auto) visit_lower_dtype(DType dtype, Function&& function) {
  if (dtype == DType::kBf16) return function.template operator()<BFloat16>();
  return function.template operator()<Float16>();
}

inline void append_text(std::string& out, DType dtype) { out += name_of(dtype); }

}  // namespace mezzo
