#include "mezzo/kernels/kernel.h"
#include "mezzo/kernels/ref/deviation.h"
#include "mezzo/ops/rms_norm_attrs.h"

namespace mezzo::kernels::ref {

extern const RefKernel rms_norm = [](const RefArgs& args) {
  using In = RmsNormInput;
  const auto& attrs = args.attrs<LayerNormAttrs>();
  const RefTensor& x = args.inputs[In::kX];
  const std::int64_t size = normalized_shape(x.shape, attrs).numel();
  for (std::int64_t row = 0; row < x.numel() / size; ++row) {
    const double* in = x.data + row * size;
    double square = 0;
    for (std::int64_t i = 0; i < size; ++i) square += in[i] * in[i] / static_cast<double>(size);
    const double rstd = 1 / deviation_of(x, square, attrs.eps);
    for (std::int64_t i = 0; i < size; ++i) {
      const double weight = args.has(In::kWeight) ? args.inputs[In::kWeight][i] : 1;
      args.outputs[0][row * size + i] = in[i] * rstd * weight;
    }
    args.outputs[1][row] = rstd;
  }
};

extern const RefKernel rms_norm_grad = [](const RefArgs& args) {
  using In = RmsNormGradInput;
  const RefTensor& x = args.inputs[In::kX];
  const RefTensor& grad = args.inputs[In::kGrad];
  const std::int64_t size = normalized_shape(x.shape, args.attrs<LayerNormAttrs>()).numel();
  const auto weight = [&](std::int64_t i) {
    return args.has(In::kWeight) ? args.inputs[In::kWeight][i] : 1;
  };
  for (std::int64_t i = 0; i < size; ++i) args.outputs[1][i] = 0;
  for (std::int64_t row = 0; row < x.numel() / size; ++row) {
    const double rstd = args.inputs[In::kRstd][row];
    double products = 0;
    for (std::int64_t i = 0; i < size; ++i) {
      const double normal = x[row * size + i] * rstd;
      const double g = grad[row * size + i];
      args.outputs[1][i] += g * normal;
      products += g * weight(i) * normal;
    }
    for (std::int64_t i = 0; i < size; ++i) {
      const double normal = x[row * size + i] * rstd;
      args.outputs[0][row * size + i] =
          rstd * (grad[row * size + i] * weight(i) - normal * products / static_cast<double>(size));
    }
  }
};

}  // namespace mezzo::kernels::ref
