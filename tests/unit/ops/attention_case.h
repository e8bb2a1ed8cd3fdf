// Shared by the tests of attention: operands, and attention composed of other operations in double.
#pragma once

#include <cmath>
#include <optional>
#include <vector>

#include "mezzo/autograd/engine.h"
#include "mezzo/ops/arithmetic.h"
#include "mezzo/ops/attention.h"
#include "mezzo/ops/cast.h"
#include "mezzo/ops/compare.h"
#include "mezzo/ops/matmul.h"
#include "mezzo/ops/reduce.h"
#include "mezzo/ops/select.h"
#include "mezzo/ops/shape_ops.h"
#include "mezzo/ops/softmax.h"
#include "tests/unit/ops/support.h"

namespace mezzo::test {

struct AttentionSize {
  std::int64_t batch = 1;
  std::int64_t heads = 1;
  std::int64_t key_heads = 1;
  std::int64_t queries = 1;
  std::int64_t keys = 1;
  std::int64_t features = 8;
  std::int64_t values = 8;
};

// Leaves q, k and v, and the gradient of the result.
struct AttentionTensors {
  Tensor q;
  Tensor k;
  Tensor v;
  Tensor grad;

  explicit AttentionTensors(const AttentionSize& s, DType dtype = DType::kF32)
      : q(parameter({s.batch, s.heads, s.queries, s.features}, 1, dtype)),
        k(parameter({s.batch, s.key_heads, s.keys, s.features}, 2, dtype)),
        v(parameter({s.batch, s.key_heads, s.keys, s.values}, 3, dtype)),
        grad(random_tensor({s.batch, s.heads, s.queries, s.values}, 4, dtype)) {}

  // The same values in double.
  AttentionTensors in_double() const {
    AttentionTensors wide = *this;
    for (Tensor* x : {&wide.q, &wide.k, &wide.v}) {
      *x = x->detach().astype(DType::kF64).set_requires_grad(true);
    }
    wide.grad = grad.astype(DType::kF64);
    return wide;
  }
};

// The result, and the gradients of q, k and v.
inline std::vector<Tensor> with_gradients(const AttentionTensors& x, const Tensor& result) {
  const Tensor leaves[] = {x.q, x.k, x.v};
  const Tensor grads[] = {x.grad};
  std::vector<Tensor> all = grad({&result, 1}, leaves, grads);
  all.insert(all.begin(), result.detach());
  return all;
}

// softmax(q k^T scale + mask) v by plain operations, with a head of k and v for each of q. Every
// query must see a key.
inline Tensor composed_attention(const AttentionTensors& x, const AttentionOptions& options) {
  const Shape& q = x.q.shape();
  const Shape& k = x.k.shape();
  const auto for_queries = [&](const Tensor& t) {
    const std::int64_t group = q[1] / k[1];
    const Tensor copies =
        expand(reshape(t, {k[0], k[1], 1, k[2], t.size(3)}), {k[0], k[1], group, k[2], t.size(3)});
    return reshape(copies, {k[0], q[1], k[2], t.size(3)});
  };
  const double scale = options.scale.value_or(1 / std::sqrt(static_cast<double>(q[3])));
  Tensor scores = matmul(x.q, for_queries(x.k), {.transpose_b = true}) * scale;
  constexpr double kHidden = -1e300;
  if (options.mask.defined()) {
    scores = is_floating(options.mask.dtype()) ? scores + options.mask.astype(DType::kF64)
                                               : masked_fill(scores, eq(options.mask, 0), kHidden);
  }
  if (options.causal) {
    const Tensor query = reshape(arange(q[2]), {q[2], 1}) + static_cast<double>(k[2] - q[2]);
    scores = masked_fill(scores, gt(arange(k[2]), query), kHidden);
  }
  return matmul(softmax(scores), for_queries(x.v));
}

// The largest difference between f32 sums over `s` and the same in double, for operands within 1:
// those of the scores, of up to `keys` (or queries) terms and of five products in a row, with the
// roundings of a 16-bit dtype: operands of the inner products, and the result.
inline double attention_tolerance(const AttentionSize& s, DType dtype, double size) {
  const auto n = static_cast<double>(s.features + s.values + std::max(s.keys, s.queries));
  return 4 * std::sqrt(n) * epsilon_of(DType::kF32) * std::max(size, 1.0) * 8 +
         (is_lower(dtype) ? 4 * epsilon_of(dtype) * std::max(size, 1.0) : 0);
}

inline double largest_of(const Tensor& x) {
  double largest = 0;
  for (const double value : x.to_vector<double>()) largest = std::max(largest, std::abs(value));
  return largest;
}

}  // namespace mezzo::test
