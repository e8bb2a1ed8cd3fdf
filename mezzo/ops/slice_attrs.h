// The attributes of slices, for their definitions and kernels.
#pragma once

#include "mezzo/ops/dispatcher/attrs.h"

namespace mezzo {

struct SliceAttrs {
  std::int64_t axis = 0;  // normalised, like the others: not negative and within the tensor
  std::int64_t start = 0;
  std::int64_t count = 0;
  std::int64_t step = 1;
  static constexpr auto kFields =
      std::tuple(Field{"axis", &SliceAttrs::axis}, Field{"start", &SliceAttrs::start},
                 Field{"count", &SliceAttrs::count}, Field{"step", &SliceAttrs::step});
  bool operator==(const SliceAttrs&) const = default;
};

struct SliceGradAttrs {
  Shape shape;  // shape of the tensor that was sliced
  SliceAttrs slice;
  static constexpr auto kFields =
      std::tuple(Field{"shape", &SliceGradAttrs::shape}, Field{"slice", &SliceGradAttrs::slice});
  bool operator==(const SliceGradAttrs&) const = default;
};

struct CatAttrs {
  std::int64_t axis = 0;  // normalised
  static constexpr auto kFields = std::tuple(Field{"axis", &CatAttrs::axis});
  bool operator==(const CatAttrs&) const = default;
};

// The elements of a slice, without recording anything.
Tensor slice_of(const Tensor& x, const SliceAttrs& slice);

// The gradient of slicing: zeros of `shape`, with grad at `slice`.
Tensor slice_grad(const Tensor& grad, const Shape& shape, const SliceAttrs& slice);

}  // namespace mezzo
