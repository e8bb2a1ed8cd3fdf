#include <algorithm>

#include "mezzo/kernels/ref/attention.h"

namespace mezzo::kernels::ref {
namespace {

double row_product(const double* a, const double* b, std::int64_t n) {
  double sum = 0;
  for (std::int64_t i = 0; i < n; ++i) sum += a[i] * b[i];
  return sum;
}

// to += factor * from.
void add_scaled_row(double factor, const double* from, std::int64_t n, double* to) {
  for (std::int64_t i = 0; i < n; ++i) to[i] += factor * from[i];
}

}  // namespace

extern const RefKernel attention_grad = [](const RefArgs& args) {
  using In = AttentionGradInput;
  const AttentionRows rows(args, In::kQ, In::kStart);
  const AttentionSizes& sizes = rows.sizes();
  const auto in = [&](std::size_t i) { return args.inputs[i].data; };
  double* const grad_q = args.outputs[0].data;
  double* const grad_k = args.outputs[1].data;
  double* const grad_v = args.outputs[2].data;
  for (const RefTensor& output : args.outputs) std::fill_n(output.data, output.numel(), 0.0);
  rows.for_each([&](const AttentionRow& row) {
    const double* grad = in(In::kGrad) + rows.result_at(row);
    const double* q = in(In::kQ) + rows.query_at(row);
    const double lse = in(In::kLse)[rows.lse_at(row)];
    // The sum over all keys of a probability times its gradient.
    const double mean = row_product(grad, in(In::kResult) + rows.result_at(row), sizes.values);
    for (std::int64_t j = 0; j < sizes.keys; ++j) {
      const double p = std::exp(rows.score(row, j) - lse);
      if (p == 0) continue;  // of a hidden key, perhaps, whose elements do not matter
      const double kept = rows.kept(row, j);
      const double* v = in(In::kV) + rows.value_at(row, j);
      const double grad_score =
          p * (kept * row_product(grad, v, sizes.values) - mean) * rows.scale();
      const std::int64_t key = rows.key_at(row, j);
      add_scaled_row(p * kept, grad, sizes.values, grad_v + rows.value_at(row, j));
      add_scaled_row(grad_score, q, sizes.features, grad_k + key);
      add_scaled_row(grad_score, in(In::kK) + key, sizes.features, grad_q + rows.query_at(row));
    }
  });
};

}  // namespace mezzo::kernels::ref
