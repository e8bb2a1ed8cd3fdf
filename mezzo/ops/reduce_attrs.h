// The attributes of reductions, for their definitions and kernels.
#pragma once

#include "mezzo/core/tensor.h"
#include "mezzo/ops/dispatcher/attrs.h"

namespace mezzo {

struct ReduceAttrs {
  Shape axes;  // normalised: not negative, ascending; never empty unless x has rank 0
  bool keepdim = false;
  bool f32_result = false;  // 16-bit inputs give an f32 result
  static constexpr auto kFields =
      std::tuple(Field{"axes", &ReduceAttrs::axes}, Field{"keepdim", &ReduceAttrs::keepdim},
                 Field{"f32_result", &ReduceAttrs::f32_result});
  bool operator==(const ReduceAttrs&) const = default;
};

// The attributes for axes as users give them; none stand for all. Throws ArgumentError under the
// name `op` for an axis that x does not have, or that is given twice.
ReduceAttrs make_reduce_attrs(const char* op, const Tensor& x, const Shape& axes, bool keepdim,
                              bool f32_result);

// The shape without the reduced axes, or with size 1 for them with keepdim.
Shape reduced_shape(const Shape& shape, const ReduceAttrs& attrs, bool keepdim);

}  // namespace mezzo
