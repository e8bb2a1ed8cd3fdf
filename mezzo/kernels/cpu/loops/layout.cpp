#include "mezzo/kernels/cpu/loops/layout.h"

#include <algorithm>
#include <cstdint>

#include "mezzo/core/math.h"
#include "mezzo/core/parallel.h"
#include "mezzo/core/scratch.h"
#include "mezzo/kernels/cpu/loops/cast_rows.h"
#include "mezzo/ops/cast.h"

namespace mezzo::kernels {

namespace {

// Allocates a temporary copy that the kernel releases before it returns.
Tensor room_like(const Tensor& tensor, DType dtype, Format format) {
  return tensor.device().is_cpu() ? scratch(tensor.shape(), dtype, format)
                                  : empty(tensor.shape(), dtype, format, tensor.device());
}

}  // namespace

Tensor dense(const Tensor& tensor, Format format) {
  if (tensor.is_dense(format)) return tensor;
  const Tensor copy = room_like(tensor, tensor.dtype(), format);
  convert_into(tensor, copy);
  return copy;
}

namespace {

// out[i] = in[i], rounded to the type `lower`; in and out are f32.
void copy_rounded(const Tensor& in, DType lower, const Tensor& out) {
  if (!same_dense_layout(in, out)) {
    const Tensor rounded = scratch(in.shape(), lower, out.format());
    convert_into(in, rounded);
    return convert_into(rounded, out);
  }
  const ConvertRow round = row_converter(DType::kF32, lower);
  const ConvertRow widen = row_converter(lower, DType::kF32);
  const float* from = in.data<float>();
  float* to = out.mutable_data<float>();
  constexpr std::int64_t kBuffer = 1024;
  const std::int64_t n = in.numel();
  parallel_for(ceil_div(n, kBuffer), kElementGrain / kBuffer,
               [&](std::int64_t begin, std::int64_t end) {
                 alignas(64) std::uint16_t bits[kBuffer];
                 for (std::int64_t first = begin * kBuffer; first < std::min(end * kBuffer, n);
                      first += kBuffer) {
                   const std::int64_t count = std::min(kBuffer, n - first);
                   round(from + first, bits, count);
                   widen(bits, to + first, count);
                 }
               });
}

}  // namespace

Tensor dense_f32(const Tensor& tensor, Format format) {
  if (tensor.dtype() == DType::kF32) return dense(tensor, format);
  const Tensor copy = room_like(tensor, DType::kF32, format);
  if (const Tensor parameter = pending_source(tensor); parameter.defined()) {
    copy_rounded(parameter, tensor.dtype(), copy);
  } else {
    convert_into(tensor, copy);
  }
  return copy;
}

std::optional<WeightSteps> weight_steps(const Tensor& weight) {
  const Shape& shape = weight.shape();
  if (weight.is_dense()) return WeightSteps{.channel = shape[2] * shape[3], .tap = 1};
  if (weight.is_dense(Format::kChannelsLast)) return WeightSteps{.channel = 1, .tap = shape[1]};
  return {};
}

bool same_dense_layout(const Tensor& a, const Tensor& b) {
  if (a.shape() != b.shape()) return false;
  return (a.is_dense() && b.is_dense()) ||
         (a.is_dense(Format::kChannelsLast) && b.is_dense(Format::kChannelsLast));
}

}  // namespace mezzo::kernels
