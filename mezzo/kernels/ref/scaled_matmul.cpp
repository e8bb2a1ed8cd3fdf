#include <cmath>

#include "mezzo/kernels/kernel.h"
#include "mezzo/ops/scale_factor.h"
#include "mezzo/ops/scaled_attrs.h"

namespace mezzo::kernels::ref {
namespace {

// One operand: element `k` of the sum in line `i`, and the scale of either.
struct ScaledOperand {
  const RefTensor& codes;
  const RefTensor& scales;
  bool sums_rows;  // the sum goes along the columns of the matrix
  ScaleBy by;

  std::int64_t lines() const { return codes.shape[sums_rows ? 1 : 0]; }
  std::int64_t terms() const { return codes.shape[sums_rows ? 0 : 1]; }

  double element(std::int64_t i, std::int64_t k) const {
    const double code = codes[sums_rows ? k * lines() + i : i * terms() + k];
    if (by != ScaleBy::kBlock) return code;
    const std::int64_t blocks = (terms() + kBlock - 1) / kBlock;
    const std::int64_t at = sums_rows ? k / kBlock * lines() + i : i * blocks + k / kBlock;
    return code * block_scale(static_cast<std::uint8_t>(scales[at]));
  }

  // What the whole sum is multiplied by.
  double factor(std::int64_t i) const {
    if (by == ScaleBy::kBlock) return 1;
    return scales[by == ScaleBy::kLine ? i : 0];
  }
};

}  // namespace

extern const RefKernel scaled_matmul = [](const RefArgs& args) {
  const auto& attrs = args.attrs<ScaledMatmulAttrs>();
  const ScaledOperand a{args.inputs[0], args.inputs[1], attrs.transpose_a, attrs.by};
  const ScaledOperand b{args.inputs[2], args.inputs[3], !attrs.transpose_b, attrs.by};
  for (std::int64_t i = 0; i < a.lines(); ++i) {
    for (std::int64_t j = 0; j < b.lines(); ++j) {
      double total = 0;
      for (std::int64_t k = 0; k < a.terms(); ++k) total += a.element(i, k) * b.element(j, k);
      const double bias = args.has(4) ? args.inputs[4][j] : 0;
      args.outputs[0][i * b.lines() + j] = total * a.factor(i) * b.factor(j) + bias;
    }
  }
};

}  // namespace mezzo::kernels::ref
