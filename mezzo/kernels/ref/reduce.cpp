#include "mezzo/kernels/ref/broadcast.h"
#include "mezzo/ops/reduce_attrs.h"

namespace mezzo::kernels::ref {
namespace {

// Calls use(i, o) for every element i of the input and the output element o it is reduced into.
template <class Use>
void for_each_reduced(const RefArgs& args, Use use) {
  const RefTensor& x = args.inputs[0];
  const RefTensor kept{nullptr, reduced_shape(x.shape, args.attrs<ReduceAttrs>(), true)};
  for (std::int64_t i = 0; i < x.numel(); ++i) {
    use(i, broadcast_offset(unravel(i, x.shape), kept));
  }
}

}  // namespace

extern const RefKernel sum = [](const RefArgs& args) {
  const RefTensor& out = args.outputs[0];
  for (std::int64_t o = 0; o < out.numel(); ++o) out[o] = 0;
  for_each_reduced(args, [&](std::int64_t i, std::int64_t o) { out[o] += args.inputs[0][i]; });
};

}  // namespace mezzo::kernels::ref
