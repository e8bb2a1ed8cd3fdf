#include "mezzo/kernels/ref/broadcast.h"
#include "mezzo/ops/matmul_attrs.h"

namespace mezzo::kernels::ref {

extern const RefKernel matmul = [](const RefArgs& args) {
  const auto& attrs = args.attrs<MatmulAttrs>();
  const RefTensor& a = args.inputs[0];
  const RefTensor& b = args.inputs[1];
  const RefTensor& out = args.outputs[0];
  const std::size_t last = out.shape.rank() - 1;
  const std::int64_t inner = a.shape[a.shape.rank() - (attrs.transpose_a ? 2 : 1)];
  for (std::int64_t i = 0; i < out.numel(); ++i) {
    const Shape index = unravel(i, out.shape);
    double total = args.has(2) ? args.inputs[2][index[last]] : 0;
    for (std::int64_t k = 0; k < inner; ++k) {
      Shape at_a = index;
      at_a[last - (attrs.transpose_a ? 1 : 0)] = k;
      at_a[last - (attrs.transpose_a ? 0 : 1)] = index[last - 1];
      Shape at_b = index;
      at_b[last - (attrs.transpose_b ? 0 : 1)] = k;
      at_b[last - (attrs.transpose_b ? 1 : 0)] = index[last];
      total += a[broadcast_offset(at_a, a)] * b[broadcast_offset(at_b, b)];
    }
    out[i] = total;
  }
};

extern const RefKernel linear = [](const RefArgs& args) {
  const RefTensor& x = args.inputs[0];
  const RefTensor& weight = args.inputs[1];
  const std::int64_t in = weight.shape[1];
  const std::int64_t features = weight.shape[0];
  for (std::int64_t i = 0; i < args.outputs[0].numel(); ++i) {
    const std::int64_t row = i / features;
    const std::int64_t feature = i % features;
    double total = args.has(2) ? args.inputs[2][feature] : 0;
    for (std::int64_t k = 0; k < in; ++k) total += x[row * in + k] * weight[feature * in + k];
    args.outputs[0][i] = total;
  }
};

}  // namespace mezzo::kernels::ref
