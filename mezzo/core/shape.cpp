#include "mezzo/core/shape.h"

#include <limits>

namespace mezzo {

Strides strides_for(const Shape& shape, Format format) {
  Strides strides = Shape::filled(shape.rank(), 1);
  if (format == Format::kChannelsLast && shape.rank() == 4) {
    const std::int64_t channels = std::max<std::int64_t>(shape[1], 1);
    strides[1] = 1;
    strides[3] = channels;
    strides[2] = strides[3] * std::max<std::int64_t>(shape[3], 1);
    strides[0] = strides[2] * std::max<std::int64_t>(shape[2], 1);
    return strides;
  }
  std::int64_t step = 1;
  for (std::size_t i = shape.rank(); i-- > 0;) {
    strides[i] = step;
    step *= std::max<std::int64_t>(shape[i], 1);
  }
  return strides;
}

bool is_countable(const Shape& shape, std::size_t element_bytes) {
  auto bytes = static_cast<std::int64_t>(element_bytes);
  return std::ranges::none_of(shape, [&](std::int64_t size) {
    return __builtin_mul_overflow(bytes, std::max<std::int64_t>(size, 1), &bytes);
  });
}

Extent extent_of(const Shape& shape, const Strides& strides, std::int64_t offset) {
  constexpr Extent kEverywhere{std::numeric_limits<std::int64_t>::min(),
                               std::numeric_limits<std::int64_t>::max()};
  if (std::ranges::find(shape, 0) != shape.end()) return {offset, offset};
  Extent extent{offset, offset};
  for (std::size_t i = 0; i < shape.rank(); ++i) {
    std::int64_t& side = strides[i] < 0 ? extent.begin : extent.end;
    std::int64_t reach = 0;
    if (__builtin_mul_overflow(shape[i] - 1, strides[i], &reach) ||
        __builtin_add_overflow(side, reach, &side)) {
      return kEverywhere;
    }
  }
  return __builtin_add_overflow(extent.end, 1, &extent.end) ? kEverywhere : extent;
}

Shape broadcast(const Shape& a, const Shape& b, std::string_view op) {
  const std::size_t rank = std::max(a.rank(), b.rank());
  Shape result = Shape::filled(rank, 1);
  for (std::size_t i = 0; i < rank; ++i) {
    const std::int64_t size_a = i < a.rank() ? a[a.rank() - 1 - i] : 1;
    const std::int64_t size_b = i < b.rank() ? b[b.rank() - 1 - i] : 1;
    check_arg(size_a == size_b || size_a == 1 || size_b == 1, op,
              "shapes cannot be broadcast together: ", a, " and ", b,
              ". Sizes must be equal or 1, counted from the last dimension");
    result[rank - 1 - i] = size_a == 1 ? size_b : size_a;
  }
  return result;
}

}  // namespace mezzo
