#include <algorithm>
#include <cmath>

#include "mezzo/kernels/kernel.h"

namespace mezzo::kernels::ref {
namespace {

double bounded(double log) { return std::max(log, -100.0); }  // a NaN stays

}  // namespace

extern const RefKernel binary_cross_entropy = [](const RefArgs& args) {
  const RefTensor& p = args.inputs[0];
  const RefTensor& t = args.inputs[1];
  for (std::int64_t i = 0; i < p.numel(); ++i) {
    args.outputs[0][i] =
        -(t[i] * bounded(std::log(p[i])) + (1 - t[i]) * bounded(std::log1p(-p[i])));
  }
};

extern const RefKernel binary_cross_entropy_with_logits = [](const RefArgs& args) {
  const RefTensor& x = args.inputs[0];
  const RefTensor& t = args.inputs[1];
  for (std::int64_t i = 0; i < x.numel(); ++i) {
    args.outputs[0][i] = std::max(x[i], 0.0) - x[i] * t[i] + std::log1p(std::exp(-std::abs(x[i])));
  }
};

}  // namespace mezzo::kernels::ref
