// How a reduction walks its input: kept and reduced dimensions, in memory order.
#pragma once

#include "mezzo/kernels/cpu/loops/loop.h"
#include "mezzo/ops/reduce_attrs.h"

namespace mezzo::kernels {

// The dimensions of a reduction, kept and reduced, besides the innermost one.
struct ReducePlan {
  Shape kept;
  Strides kept_in;
  Strides kept_out;
  Shape reduced;
  Strides reduced_in;
  std::int64_t inner = 1;
  std::int64_t inner_out = 0;  // stride in the output; 0 if the innermost dimension is reduced

  explicit ReducePlan(const Loop<2>& loop) {
    const std::size_t last = loop.rank() - 1;
    for (std::size_t i = 0; i < last; ++i) {
      if (loop.strides[1][i] == 0) {
        reduced.push_back(loop.sizes[i]);
        reduced_in.push_back(loop.strides[0][i]);
      } else {
        kept.push_back(loop.sizes[i]);
        kept_in.push_back(loop.strides[0][i]);
        kept_out.push_back(loop.strides[1][i]);
      }
    }
    inner = loop.inner();
    inner_out = loop.inner_stride(1);
  }
};

// The strides of the output at every axis of the input: 0 where the axis is reduced.
inline Strides output_strides(const Shape& shape, const ReduceAttrs& attrs) {
  const Strides kept = strides_for(reduced_shape(shape, attrs, true), Format::kContiguous);
  Strides strides = kept;
  for (const std::int64_t axis : attrs.axes) strides[static_cast<std::size_t>(axis)] = 0;
  return strides;
}

}  // namespace mezzo::kernels
