// Index arithmetic of the reference kernels. Plain and slow on purpose.
#pragma once

#include "mezzo/kernels/kernel.h"

namespace mezzo::kernels::ref {

// The coordinates of element `flat` of a row-major tensor.
inline Shape unravel(std::int64_t flat, const Shape& shape) {
  Shape index = Shape::filled(shape.rank(), 0);
  for (std::size_t i = shape.rank(); i-- > 0;) {
    index[i] = flat % shape[i];
    flat /= shape[i];
  }
  return index;
}

// The element of `tensor` that broadcasts to the coordinates `index` of a larger tensor.
inline std::int64_t broadcast_offset(const Shape& index, const RefTensor& tensor) {
  std::int64_t offset = 0;
  const std::size_t extra = index.rank() - tensor.shape.rank();
  for (std::size_t i = 0; i < tensor.shape.rank(); ++i) {
    offset = offset * tensor.shape[i] + (tensor.shape[i] == 1 ? 0 : index[i + extra]);
  }
  return offset;
}

}  // namespace mezzo::kernels::ref
