// Tensors for seeds.
#pragma once

#include <vector>

#include "mezzo/core/named_tensor.h"

namespace mezzo::fuzz {

// A tensor of bytes 0, 1, 2, ...; bools alternate between 0 and 1.
inline Tensor counting_tensor(const Shape& shape, DType dtype) {
  const Tensor tensor = zeros(shape, dtype);
  auto* const raw = static_cast<unsigned char*>(tensor.mutable_raw_data());
  for (std::size_t i = 0; i < tensor.bytes(); ++i) {
    raw[i] = static_cast<unsigned char>(dtype == DType::kBool ? i % 2 : i);
  }
  return tensor;
}

// One tensor of each dtype, of ranks 0 to 3, one without elements.
inline std::vector<NamedTensor> tensors_of_all_dtypes() {
  return {{"f32", counting_tensor({2, 3}, DType::kF32)},
          {"bf16", counting_tensor({3}, DType::kBf16)},
          {"f16", counting_tensor({1, 2, 2}, DType::kF16)},
          {"e4m3", counting_tensor({2, 1, 3}, DType::kE4m3)},
          {"e5m2", counting_tensor({3}, DType::kE5m2)},
          {"f64", counting_tensor({}, DType::kF64)},
          {"i32", counting_tensor({2, 0}, DType::kI32)},
          {"i64", counting_tensor({1}, DType::kI64)},
          {"u8", counting_tensor({5}, DType::kU8)},
          {"bool", counting_tensor({4}, DType::kBool)}};
}

}  // namespace mezzo::fuzz
