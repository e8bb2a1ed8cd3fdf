// The attributes of choosing by masks, for its definitions and kernels.
#pragma once

#include <array>
#include <cstddef>
#include <cstring>

#include "mezzo/core/convert_element.h"
#include "mezzo/ops/dispatcher/attrs.h"

namespace mezzo {

struct MaskedFillAttrs {
  double number = 0;
  bool where = true;  // what the mask says of the elements that are filled
  static constexpr auto kFields = std::tuple(Field{"number", &MaskedFillAttrs::number},
                                             Field{"where", &MaskedFillAttrs::where});
  bool operator==(const MaskedFillAttrs&) const = default;
};

// The number that a tensor of that dtype is filled with. A finite one stays finite: a mask of -1e9,
// written for f32, would otherwise be -inf in f16, and a row that it covers wholly NaN behind a
// softmax.
inline double filling(double number, DType dtype) { return within_range(number, dtype); }

// The first size_of(dtype) bytes are the filling of x as an element of `dtype`, that of the result;
// of 16 bits by way of f32, as a call in f32 and a cast of its result would have it.
inline std::array<std::byte, 8> as_element(double number, DType x, DType dtype) {
  std::array<std::byte, 8> bytes{};
  number = filling(number, x);
  visit_dtype(dtype, [&]<class T>() {
    const double wide = is_lower(dtype) ? static_cast<double>(static_cast<float>(number)) : number;
    const T element = convert_element<T>(wide);
    std::memcpy(bytes.data(), &element, sizeof(T));
  });
  return bytes;
}

}  // namespace mezzo
