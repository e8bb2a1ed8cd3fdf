#include <span>
#include <vector>

#include "mezzo/kernels/kernel.h"
#include "mezzo/kernels/ref/deviation.h"
#include "mezzo/ops/batch_norm_attrs.h"
#include "mezzo/ops/norm_together.h"

namespace mezzo::kernels::ref {
namespace {

using GradIn = BatchNormGradInput;

// One value of x with its channel's parameters.
struct Value {
  std::int64_t c;
  double normal;  // (x - mean) / sqrt(var + eps)
  double scale;   // weight / sqrt(var + eps)
  double grad;    // of the value before the ReLU
};

Value value_at(const RefArgs& args, std::int64_t i) {
  const auto& attrs = args.attrs<BatchNormAttrs>();
  const RefTensor& x = args.inputs[GradIn::kX];
  const std::int64_t c = i / (x.numel() / (x.shape[0] * x.shape[1])) % x.shape[1];
  const double rstd = 1 / deviation_of(x, args.inputs[GradIn::kVar][c], attrs.eps);
  const double weight = args.has(GradIn::kWeight) ? args.inputs[GradIn::kWeight][c] : 1;
  const double bias = args.has(GradIn::kBias) ? args.inputs[GradIn::kBias][c] : 0;
  const double normal = (x[i] - args.inputs[GradIn::kMean][c]) * rstd;
  const double residual = args.has(GradIn::kResidual) ? args.inputs[GradIn::kResidual][i] : 0;
  const double y =
      args.has(GradIn::kY) ? args.inputs[GradIn::kY][i] : normal * weight + bias + residual;
  const double other = args.has(GradIn::kOtherGrad) ? args.inputs[GradIn::kOtherGrad][i] : 0;
  const double grad = attrs.relu && y <= 0 ? 0 : args.inputs[GradIn::kGrad][i] + other;
  return {c, normal, weight * rstd, grad};
}

}  // namespace

extern const RefKernel batch_norm_grad = [](const RefArgs& args) {
  const RefTensor& x = args.inputs[GradIn::kX];
  const RefTensor& grad_weight = args.outputs[1];
  const RefTensor& grad_bias = args.outputs[2];
  for (std::int64_t c = 0; c < x.shape[1]; ++c) grad_weight[c] = grad_bias[c] = 0;
  for (std::int64_t i = 0; i < x.numel(); ++i) {
    const Value v = value_at(args, i);
    grad_weight[v.c] += v.grad * v.normal;
    grad_bias[v.c] += v.grad;
    if (args.outputs.size() > 3) args.outputs[3][i] = v.grad;
  }
  // In training, the statistics depend on the x of all processes; otherwise they are constants.
  const auto& attrs = args.attrs<BatchNormAttrs>();
  std::vector<double> weights(grad_weight.values().begin(), grad_weight.values().end());
  std::vector<double> biases(grad_bias.values().begin(), grad_bias.values().end());
  if (attrs.training) {
    share_means(attrs.processes, std::span(weights), std::span(biases));
  }
  const double share = static_cast<double>(x.shape[1]) / static_cast<double>(x.numel());
  for (std::int64_t i = 0; i < x.numel(); ++i) {
    const Value v = value_at(args, i);
    const auto c = static_cast<std::size_t>(v.c);
    const double shared = attrs.training ? share * (biases[c] + v.normal * weights[c]) : 0.0;
    args.outputs[0][i] = v.scale * (v.grad - shared);
  }
};

}  // namespace mezzo::kernels::ref
