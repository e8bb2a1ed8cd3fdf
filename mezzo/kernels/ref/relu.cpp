#include "mezzo/kernels/kernel.h"

namespace mezzo::kernels::ref {

extern const RefKernel relu = [](const RefArgs& args) {
  const RefTensor& x = args.inputs[0];
  for (std::int64_t i = 0; i < x.numel(); ++i) args.outputs[0][i] = x[i] <= 0 ? 0 : x[i];
};

extern const RefKernel relu_grad = [](const RefArgs& args) {
  const RefTensor& grad = args.inputs[0];
  const RefTensor& y = args.inputs[1];
  for (std::int64_t i = 0; i < grad.numel(); ++i) args.outputs[0][i] = y[i] <= 0 ? 0 : grad[i];
};

}  // namespace mezzo::kernels::ref
