#include "mezzo/kernels/cpu/layout.h"

#include "mezzo/ops/cast.h"

namespace mezzo::kernels {

Tensor dense(const Tensor& tensor, Format format) {
  if (tensor.is_dense(format)) return tensor;
  const Tensor copy = empty(tensor.shape(), tensor.dtype(), format, tensor.device());
  convert_into(tensor, copy);
  return copy;
}

Tensor dense_f32(const Tensor& tensor, Format format) {
  if (tensor.dtype() == DType::kF32) return dense(tensor, format);
  const Tensor copy = empty(tensor.shape(), DType::kF32, format, tensor.device());
  convert_into(tensor, copy);
  return copy;
}

bool same_dense_layout(const Tensor& a, const Tensor& b) {
  if (a.shape() != b.shape()) return false;
  return (a.is_dense() && b.is_dense()) ||
         (a.is_dense(Format::kChannelsLast) && b.is_dense(Format::kChannelsLast));
}

}  // namespace mezzo::kernels
