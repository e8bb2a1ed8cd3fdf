#include "mezzo/kernels/kernel.h"
#include "mezzo/ops/triangular_attrs.h"

namespace mezzo::kernels::ref {
namespace {

void triangle(const RefArgs& args, bool upper) {
  const RefTensor& x = args.inputs[0];
  const std::int64_t diagonal = args.attrs<TriangularAttrs>().diagonal;
  const std::int64_t n = x.shape.back();
  const std::int64_t m = x.shape[x.shape.rank() - 2];
  for (std::int64_t i = 0; i < x.numel(); ++i) {
    const std::int64_t distance = i % n - i / n % m;  // of the column from the diagonal
    const bool is_kept = upper ? distance >= diagonal : distance <= diagonal;
    args.outputs[0][i] = is_kept ? x[i] : 0;
  }
}

}  // namespace

extern const RefKernel tril = [](const RefArgs& args) { triangle(args, false); };
extern const RefKernel triu = [](const RefArgs& args) { triangle(args, true); };

}  // namespace mezzo::kernels::ref
