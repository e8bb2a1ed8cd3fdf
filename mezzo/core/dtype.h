// The element types of tensors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>

#include "mezzo/core/half.h"

namespace mezzo {

enum class DType : std::uint8_t { kF32, kBf16, kF16, kF64, kI64, kI32, kU8, kBool };

inline constexpr DType kAllDTypes[] = {DType::kF32, DType::kBf16, DType::kF16, DType::kF64,
                                       DType::kI64, DType::kI32,  DType::kU8,  DType::kBool};

// `f32`, `bf16`, ...: the name used in logs, errors, options and files.
const char* name_of(DType dtype);

// The dtype of that name; also `float32`, `float`, `bfloat16`, `float16`, `half`, `float64` and
// `double`. Empty if unknown.
std::optional<DType> parse_dtype(std::string_view name);

// Bytes of one element.
constexpr std::size_t size_of(DType dtype) {
  switch (dtype) {
    case DType::kF64:
    case DType::kI64: return 8;
    case DType::kF32:
    case DType::kI32: return 4;
    case DType::kBf16:
    case DType::kF16: return 2;
    case DType::kU8:
    case DType::kBool: return 1;
  }
  return 0;
}

constexpr bool is_floating(DType dtype) {
  return dtype == DType::kF32 || dtype == DType::kBf16 || dtype == DType::kF16 ||
         dtype == DType::kF64;
}

// True for the two 16-bit floating types, the "lower" precisions of mixed precision.
constexpr bool is_lower(DType dtype) { return dtype == DType::kBf16 || dtype == DType::kF16; }

// The type that holds values of both: f64 over f32 over {bf16, f16}, any float over any integer,
// i64 over i32 over u8 over bool. bf16 with f16 gives f32, since neither holds the other.
DType promote(DType a, DType b);

// The distance from 1 to the next larger number; 0 for integer types.
double epsilon_of(DType dtype);

// The largest finite value of a floating type.
double max_of(DType dtype);

// The number, or, if that is finite and beyond the range of a floating type, the largest finite
// value of the type with its sign.
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

// The dtype whose elements are T; no other C++ type can be in a tensor.
template <class T>
inline constexpr DType kDTypeOf = detail::DTypeOf<T>::value;

// Calls function.template operator()<T>() with the C++ type of `dtype`.
template <class Function>
decltype(auto) visit_dtype(DType dtype, Function&& function) {
  switch (dtype) {
    case DType::kF32: return function.template operator()<float>();
    case DType::kBf16: return function.template operator()<BFloat16>();
    case DType::kF16: return function.template operator()<Float16>();
    case DType::kF64: return function.template operator()<double>();
    case DType::kI64: return function.template operator()<std::int64_t>();
    case DType::kI32: return function.template operator()<std::int32_t>();
    case DType::kU8: return function.template operator()<std::uint8_t>();
    case DType::kBool: return function.template operator()<bool>();
  }
  return function.template operator()<float>();
}

inline void append_text(std::string& out, DType dtype) { out += name_of(dtype); }

}  // namespace mezzo
