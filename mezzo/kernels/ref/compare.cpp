#include "mezzo/kernels/ref/broadcast.h"
#include "mezzo/ops/compare_attrs.h"

namespace mezzo::kernels::ref {

extern const RefKernel compare = [](const RefArgs& args) {
  const Relation relation = args.attrs<CompareAttrs>().relation;
  const RefTensor& out = args.outputs[0];
  for (std::int64_t i = 0; i < out.numel(); ++i) {
    const Shape index = unravel(i, out.shape);
    const double a = args.inputs[0][broadcast_offset(index, args.inputs[0])];
    const double b = args.inputs[1][broadcast_offset(index, args.inputs[1])];
    out[i] = holds(relation, a, b) ? 1 : 0;
  }
};

extern const RefKernel compare_number = [](const RefArgs& args) {
  const auto& [relation, number] = args.attrs<CompareNumberAttrs>();
  const RefTensor& x = args.inputs[0];
  for (std::int64_t i = 0; i < x.numel(); ++i) {
    args.outputs[0][i] = holds(relation, x[i], number) ? 1 : 0;
  }
};

}  // namespace mezzo::kernels::ref
