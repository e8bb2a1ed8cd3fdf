// The attributes of triangles, for their definitions and kernels.
#pragma once

#include <algorithm>

#include "mezzo/ops/dispatcher/attrs.h"

namespace mezzo {

struct TriangularAttrs {
  std::int64_t diagonal = 0;
  static constexpr auto kFields = std::tuple(Field{"diagonal", &TriangularAttrs::diagonal});
  bool operator==(const TriangularAttrs&) const = default;
};

// The columns [begin, end) of a row of n columns that belong to the lower or to the upper triangle.
struct TriangleColumns {
  std::int64_t begin;
  std::int64_t end;
};
inline TriangleColumns columns_of(bool upper, std::int64_t row, std::int64_t diagonal,
                                  std::int64_t n) {
  // Limited first: the sum of a row and any number may overflow.
  const std::int64_t column = row + std::clamp(diagonal, -row - 1, n);
  if (upper) return {std::clamp<std::int64_t>(column, 0, n), n};
  return {0, std::clamp<std::int64_t>(column + 1, 0, n)};
}

}  // namespace mezzo
