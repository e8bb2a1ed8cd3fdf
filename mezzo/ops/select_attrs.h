// The attributes of selection by masks, for its definitions and kernels.
#pragma once

#include <array>
#include <cstddef>
#include <cstring>

#include "mezzo/core/convert_element.h"
#include "mezzo/ops/dispatcher/attrs.h"

namespace mezzo {

struct MaskedFillAttrs {
  double number = 0;
  bool where = true;  // the value of the mask where elements are filled
  static constexpr auto kFields = std::tuple(Field{"number", &MaskedFillAttrs::number},
                                             Field{"where", &MaskedFillAttrs::where});
  bool operator==(const MaskedFillAttrs&) const = default;
};

// The fill value in a tensor of that dtype. A finite number stays finite. Otherwise a mask value of
// -1e9, written for f32, would be -inf in a narrow range, and a softmax of a fully masked row would
// be NaN.
inline double filling(double number, DType dtype) { return within_range(number, dtype); }

// The fill value of x as an element of the result's `dtype`, in the first size_of(dtype) bytes. A
// 16-bit value is converted by way of f32, like a call in f32 whose result is cast.
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
