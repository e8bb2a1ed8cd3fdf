// The attributes of indexing operations, for their definitions and kernels.
#pragma once

#include "mezzo/ops/dispatcher/attrs.h"

namespace mezzo {

struct OneHotAttrs {
  std::int64_t classes = 0;
  DType dtype = DType::kF32;
  static constexpr auto kFields =
      std::tuple(Field{"classes", &OneHotAttrs::classes}, Field{"dtype", &OneHotAttrs::dtype});
  bool operator==(const OneHotAttrs&) const = default;
};

struct EmbeddingGradAttrs {
  std::int64_t rows = 0;    // of the table
  bool f32_result = false;  // 16-bit gradients give an f32 result
  static constexpr auto kFields = std::tuple(Field{"rows", &EmbeddingGradAttrs::rows},
                                             Field{"f32_result", &EmbeddingGradAttrs::f32_result});
  bool operator==(const EmbeddingGradAttrs&) const = default;
};

// Throws ArgumentError unless 0 <= index < rows; `at` is the index's position.
template <class Index>
std::int64_t checked_index(Index index, std::int64_t at, std::int64_t rows, std::string_view op) {
  const auto value = static_cast<std::int64_t>(index);
  check_arg(value >= 0 && value < rows, op, "index ", at, " is ", value, ", out of range for ",
            rows, " rows. Indices count from 0");
  return value;
}

}  // namespace mezzo
