#include <cmath>

#include "mezzo/kernels/kernel.h"
#include "mezzo/ops/piecewise_attrs.h"

namespace mezzo::kernels::ref {

extern const RefKernel leaky_relu = [](const RefArgs& args) {
  const double slope = args.attrs<LeakyReluAttrs>().negative_slope;
  const RefTensor& x = args.inputs[0];
  for (std::int64_t i = 0; i < x.numel(); ++i) {
    args.outputs[0][i] = x[i] > 0 ? x[i] : slope * x[i];
  }
};

extern const RefKernel leaky_relu_grad = [](const RefArgs& args) {
  const double slope = args.attrs<LeakyReluAttrs>().negative_slope;
  const RefTensor& grad = args.inputs[0];
  const RefTensor& x = args.inputs[1];
  for (std::int64_t i = 0; i < x.numel(); ++i) {
    args.outputs[0][i] = x[i] > 0 ? grad[i] : slope * grad[i];
  }
};

extern const RefKernel clamp = [](const RefArgs& args) {
  const RefTensor& x = args.inputs[0];
  const auto [min, max] = bounds_in(x.dtype, args.attrs<ClampAttrs>());
  for (std::int64_t i = 0; i < x.numel(); ++i) {
    args.outputs[0][i] = x[i] < min ? min : x[i] > max ? max : x[i];
  }
};

extern const RefKernel clamp_grad = [](const RefArgs& args) {
  const RefTensor& grad = args.inputs[0];
  const RefTensor& x = args.inputs[1];
  const auto [min, max] = bounds_in(x.dtype, args.attrs<ClampAttrs>());
  for (std::int64_t i = 0; i < x.numel(); ++i) {
    const bool is_above = std::isinf(min) ? x[i] >= min : x[i] > min;
    const bool is_below = std::isinf(max) ? x[i] <= max : x[i] < max;
    args.outputs[0][i] = is_above && is_below ? grad[i] : 0;
  }
};

extern const RefKernel abs = [](const RefArgs& args) {
  const RefTensor& x = args.inputs[0];
  for (std::int64_t i = 0; i < x.numel(); ++i) args.outputs[0][i] = std::abs(x[i]);
};

extern const RefKernel abs_grad = [](const RefArgs& args) {
  const RefTensor& grad = args.inputs[0];
  const RefTensor& x = args.inputs[1];
  for (std::int64_t i = 0; i < x.numel(); ++i) {
    args.outputs[0][i] = x[i] > 0 ? grad[i] : x[i] < 0 ? -grad[i] : 0;
  }
};

}  // namespace mezzo::kernels::ref
