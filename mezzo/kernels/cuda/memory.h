// Filling tensors on a GPU, and copying them between dtypes and layouts.
#pragma once

#include "mezzo/core/tensor.h"

namespace mezzo::kernels::cuda {

// Writes `value` into every element.
void fill_tensor(const Tensor& tensor, double value);

// Copies elements in logical order, converting dtypes and layouts. All tensors are on one device.
void copy_tensor(const Tensor& source, const Tensor& destination);

}  // namespace mezzo::kernels::cuda
