// The attributes of choosing by masks, for its definitions and kernels.
#pragma once

#include <array>
#include <cstddef>
#include <cstring>

#include "mezzo/core/convert_element.h"
#include "mezzo/ops/attrs.h"

namespace mezzo {

struct MaskedFillAttrs {
  double number = 0;
  bool where = true;  // what the mask says of the elements that are filled
  static constexpr auto kFields = std::tuple(Field{"number", &MaskedFillAttrs::number},
                                             Field{"where", &MaskedFillAttrs::where});
  bool operator==(const MaskedFillAttrs&) const = default;
};

// The first size_of(dtype) bytes are the number as an element; of 16 bits by way of f32, as a call
// in f32 and a cast of its result would have it.
inline std::array<std::byte, 8> as_element(double number, DType dtype) {
  std::array<std::byte, 8> bytes{};
  visit_dtype(dtype, [&]<class T>() {
    const double wide = is_lower(dtype) ? static_cast<double>(static_cast<float>(number)) : number;
    const T element = convert_element<T>(wide);
    std::memcpy(bytes.data(), &element, sizeof(T));
  });
  return bytes;
}

}  // namespace mezzo
