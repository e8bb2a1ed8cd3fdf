// The position of an element in channels-last images.
#pragma once

#include <cstdint>

namespace mezzo::kernels::cuda {

template <class Index>
struct ImagePlace {
  Index n, y, x, c;
};

// The position of element `i` of channels-last images. Uses 32-bit divisions if they fit.
template <class Index>
__device__ ImagePlace<Index> image_place_of(Index i, Index height, Index width, Index channels) {
  const auto split = [&](auto index) -> ImagePlace<Index> {
    using Unsigned = decltype(index);
    const auto c = static_cast<Unsigned>(channels);
    const auto w = static_cast<Unsigned>(width);
    const auto h = static_cast<Unsigned>(height);
    const Unsigned pixel = index / c;
    const Unsigned row = pixel / w;
    return {static_cast<Index>(row / h), static_cast<Index>(row % h), static_cast<Index>(pixel % w),
            static_cast<Index>(index % c)};
  };
  if constexpr (sizeof(Index) > sizeof(std::uint32_t)) {
    if (i > 0x7fffffff) return split(static_cast<std::uint64_t>(i));
  }
  return split(static_cast<std::uint32_t>(i));
}

}  // namespace mezzo::kernels::cuda
