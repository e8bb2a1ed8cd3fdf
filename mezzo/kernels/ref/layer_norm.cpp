#include "mezzo/kernels/kernel.h"
#include "mezzo/kernels/ref/deviation.h"
#include "mezzo/ops/layer_norm_attrs.h"

namespace mezzo::kernels::ref {

extern const RefKernel layer_norm = [](const RefArgs& args) {
  using In = LayerNormInput;
  const auto& attrs = args.attrs<LayerNormAttrs>();
  const RefTensor& x = args.inputs[In::kX];
  const std::int64_t size = normalized_shape(x.shape, attrs).numel();
  for (std::int64_t row = 0; row < x.numel() / size; ++row) {
    const double* in = x.data + row * size;
    double mean = 0;
    for (std::int64_t i = 0; i < size; ++i) mean += in[i] / static_cast<double>(size);
    double var = 0;
    for (std::int64_t i = 0; i < size; ++i) {
      var += (in[i] - mean) * (in[i] - mean) / static_cast<double>(size);
    }
    const double rstd = 1 / deviation_of(x, var, attrs.eps);
    for (std::int64_t i = 0; i < size; ++i) {
      const double weight = args.has(In::kWeight) ? args.inputs[In::kWeight][i] : 1;
      const double bias = args.has(In::kBias) ? args.inputs[In::kBias][i] : 0;
      args.outputs[0][row * size + i] = (in[i] - mean) * rstd * weight + bias;
    }
    args.outputs[1][row] = mean;
    args.outputs[2][row] = rstd;
  }
};

extern const RefKernel layer_norm_grad = [](const RefArgs& args) {
  using In = LayerNormGradInput;
  const RefTensor& x = args.inputs[In::kX];
  const RefTensor& grad = args.inputs[In::kGrad];
  const std::int64_t size = normalized_shape(x.shape, args.attrs<LayerNormAttrs>()).numel();
  const auto weight = [&](std::int64_t i) {
    return args.has(In::kWeight) ? args.inputs[In::kWeight][i] : 1;
  };
  for (std::int64_t i = 0; i < size; ++i) args.outputs[1][i] = args.outputs[2][i] = 0;
  for (std::int64_t row = 0; row < x.numel() / size; ++row) {
    const double mean = args.inputs[In::kMean][row];
    const double rstd = args.inputs[In::kRstd][row];
    double sum = 0;
    double products = 0;
    for (std::int64_t i = 0; i < size; ++i) {
      const double normal = (x[row * size + i] - mean) * rstd;
      const double g = grad[row * size + i];
      args.outputs[1][i] += g * normal;
      args.outputs[2][i] += g;
      sum += g * weight(i);
      products += g * weight(i) * normal;
    }
    for (std::int64_t i = 0; i < size; ++i) {
      const double normal = (x[row * size + i] - mean) * rstd;
      args.outputs[0][row * size + i] =
          rstd * (grad[row * size + i] * weight(i) -
                  (sum + normal * products) / static_cast<double>(size));
    }
  }
};

}  // namespace mezzo::kernels::ref
