// The attributes and the inputs of group normalization, for its definitions and kernels.
#pragma once

#include "mezzo/ops/dispatcher/attrs.h"

namespace mezzo {

struct GroupNormAttrs {
  std::int64_t groups = 1;
  double eps = 1e-5;
  static constexpr auto kFields =
      std::tuple(Field{"groups", &GroupNormAttrs::groups}, Field{"eps", &GroupNormAttrs::eps});
  bool operator==(const GroupNormAttrs&) const = default;
};

struct GroupNormInput {
  enum : std::size_t { kX, kWeight, kBias };
};

struct GroupNormGradInput {
  enum : std::size_t { kGrad, kX, kWeight, kMean, kRstd };
};

// How x [n, c] or [n, c, h, w] is divided into groups.
struct GroupSizes {
  std::int64_t samples = 0;
  std::int64_t channels = 0;
  std::int64_t groups = 1;
  std::int64_t pixels = 1;  // of an image

  GroupSizes(const Shape& x, std::int64_t count)
      : samples(x[0]), channels(x[1]), groups(count), pixels(x.rank() == 4 ? x[2] * x[3] : 1) {}

  std::int64_t group_channels() const { return channels / groups; }
  // The number of elements that a mean is taken over.
  std::int64_t group_numbers() const { return group_channels() * pixels; }
};

}  // namespace mezzo
