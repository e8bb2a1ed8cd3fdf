// The attributes and the inputs of layer normalization, for its definitions and kernels.
#pragma once

#include "mezzo/ops/dispatcher/attrs.h"

namespace mezzo {

struct LayerNormAttrs {
  std::int64_t axes = 1;  // number of last axes that are normalised together
  double eps = 1e-5;
  static constexpr auto kFields =
      std::tuple(Field{"axes", &LayerNormAttrs::axes}, Field{"eps", &LayerNormAttrs::eps});
  bool operator==(const LayerNormAttrs&) const = default;
};

struct LayerNormInput {
  enum : std::size_t { kX, kWeight, kBias };
};

struct LayerNormGradInput {
  enum : std::size_t { kGrad, kX, kWeight, kMean, kRstd };
};

// The shape of the statistics: the first axes of x, without the last, normalised ones.
inline Shape leading_shape(const Shape& x, const LayerNormAttrs& attrs) {
  return Shape(std::span(x.begin(), x.rank() - static_cast<std::size_t>(attrs.axes)));
}
inline Shape normalized_shape(const Shape& x, const LayerNormAttrs& attrs) {
  const auto axes = static_cast<std::size_t>(attrs.axes);
  return Shape(std::span(x.begin() + (x.rank() - axes), axes));
}

}  // namespace mezzo
