#include "mezzo/kernels/ref/attention.h"

#include <algorithm>
#include <vector>

namespace mezzo::kernels::ref {

extern const RefKernel attention = [](const RefArgs& args) {
  using In = AttentionInput;
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const AttentionRows rows(args, In::kQ, In::kStart);
  const AttentionSizes& sizes = rows.sizes();
  const RefTensor& v = args.inputs[In::kV];
  std::vector<double> scores(static_cast<std::size_t>(sizes.keys));
  rows.for_each([&](const AttentionRow& row) {
    double highest = -kInfinity;
    for (std::int64_t j = 0; j < sizes.keys; ++j) {
      scores[j] = rows.score(row, j);
      highest = std::max(highest, scores[j]);
    }
    double* out = args.outputs[0].data + rows.result_at(row);
    std::fill_n(out, sizes.values, 0.0);
    double& lse = args.outputs[1][rows.lse_at(row)];
    // exp(score - lse) is 0 then, as the gradient wants it.
    lse = kInfinity;
    if (highest == -kInfinity) return;
    double sum = 0;
    for (const double score : scores) sum += std::exp(score - highest);
    lse = highest + std::log(sum);
    for (std::int64_t j = 0; j < sizes.keys; ++j) {
      const double p = std::exp(scores[j] - highest) / sum * rows.kept(row, j);
      const double* value = v.data + rows.value_at(row, j);
      for (std::int64_t c = 0; c < sizes.values; ++c) out[c] += p * value[c];
    }
  });
};

}  // namespace mezzo::kernels::ref
