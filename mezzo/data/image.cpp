#include "mezzo/data/image.h"

#include <algorithm>

#include "mezzo/core/error.h"

namespace mezzo::data {

Tensor hwc_to_chw(const Tensor& images) {
  const std::size_t rank = images.rank();
  check_arg(rank == 3 || rank == 4, "hwc_to_chw",
            "expected [h, w, c] or [n, h, w, c]: ", images.shape());
  Shape shape = images.shape();
  Strides strides = images.strides();
  const std::size_t first = rank - 3;
  std::rotate(&shape[first], &shape[rank - 1], &shape[rank - 1] + 1);
  std::rotate(&strides[first], &strides[rank - 1], &strides[rank - 1] + 1);
  return alias(images, shape, strides, images.offset());
}

}  // namespace mezzo::data
