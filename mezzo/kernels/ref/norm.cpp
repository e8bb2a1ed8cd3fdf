#include <cmath>

#include "mezzo/kernels/ref/broadcast.h"
#include "mezzo/ops/reduce_attrs.h"

namespace mezzo::kernels::ref {

extern const RefKernel norm = [](const RefArgs& args) {
  const RefTensor& x = args.inputs[0];
  const RefTensor& out = args.outputs[0];
  const RefTensor kept{nullptr, reduced_shape(x.shape, args.attrs<ReduceAttrs>(), true)};
  for (std::int64_t o = 0; o < out.numel(); ++o) out[o] = 0;
  for (std::int64_t i = 0; i < x.numel(); ++i) {
    out[broadcast_offset(unravel(i, x.shape), kept)] += x[i] * x[i];
  }
  for (std::int64_t o = 0; o < out.numel(); ++o) out[o] = std::sqrt(out[o]);
};

}  // namespace mezzo::kernels::ref
