#include "mezzo/ops/attention_by_ops.h"

#include <limits>

#include "mezzo/ops/all.h"
#include "mezzo/ops/arithmetic.h"
#include "mezzo/ops/cast.h"
#include "mezzo/ops/compare.h"
#include "mezzo/ops/dispatcher/call.h"
#include "mezzo/ops/matmul.h"
#include "mezzo/ops/piecewise.h"
#include "mezzo/ops/reduce.h"
#include "mezzo/ops/select.h"
#include "mezzo/ops/shape_ops.h"
#include "mezzo/ops/softmax.h"

namespace mezzo {
namespace {

// The score of a hidden key. It is finite, so that a row without any other score is not NaN, and so
// low that exp() of its distance to every other score is 0.
constexpr double kHiddenScore = -1e38;

// The lowest score of a key that is not hidden: with a mask of the lowest f32, it would otherwise
// be below that of a hidden key.
constexpr double kLowestScore = -1e37;

AttentionSizes attention_sizes_of(const AttentionOperands& x) {
  const auto rows_first = [](const Shape& s) { return Shape{s[0], s[2], s[1], s[3]}; };
  return {rows_first(x.q.shape()), rows_first(x.k.shape()), rows_first(x.v.shape())};
}

bool is_floating_mask(const Tensor& mask) { return mask.defined() && is_floating(mask.dtype()); }

// Where keys are hidden: true, [t|1, s] or of the mask's shape; undefined if nowhere.
Tensor hidden_keys(const AttentionOperands& x, const AttentionAttrs& attrs) {
  Tensor hidden;
  if (x.mask.defined()) {
    hidden = is_floating_mask(x.mask)
                 ? eq(x.mask.detach(), -std::numeric_limits<double>::infinity())
                 : eq(x.mask, 0.0);
  }
  if (!attrs.causal) return hidden;
  const AttentionSizes sizes = attention_sizes_of(x);
  const Device device = x.q.device();
  const Tensor key = arange(sizes.keys).to(device);
  const Tensor query = reshape(arange(sizes.queries).to(device), {sizes.queries, 1});
  const Tensor later = gt(key, query + static_cast<double>(sizes.keys - sizes.queries));
  return hidden.defined() ? where(hidden, hidden, later) : later;
}

// A copy of each head of k or v for every head of q that shares it: [b, h, s, n].
Tensor repeat_heads(const Tensor& x, std::int64_t group) {
  if (group == 1) return x;
  const Shape& s = x.shape();
  const Tensor copies =
      expand(reshape(x, {s[0], s[1], 1, s[2], s[3]}), {s[0], s[1], group, s[2], s[3]});
  return reshape(copies, {s[0], s[1] * group, s[2], s[3]});
}

// The inverse: the sum over the heads of q that share a head.
Tensor sum_heads(const Tensor& x, std::int64_t group) {
  if (group == 1) return x;
  const Shape& s = x.shape();
  return sum(reshape(x, {s[0], s[1] / group, group, s[2], s[3]}), {2});
}

// The probabilities, [b, h, t, s], in the dtype of the statistics; 0 in rows that see no key.
Tensor attention_probabilities(const AttentionOperands& x, const Tensor& keys,
                               const AttentionAttrs& attrs) {
  // Scores of f16 operands may exceed the range of f16, and those of bf16 would lose half the bits
  // that distinguish two keys.
  Tensor scores = matmul(x.q, keys, {.transpose_b = true, .f32_result = true});
  // The region that lowers the product would round the scores, too.
  const WithoutPrecisionHook outside;
  scores = scores * attrs.scale;
  const Tensor hidden = hidden_keys(x, attrs);
  // -inf is taken out of a floating mask: a gradient of it would be NaN.
  if (is_floating_mask(x.mask)) {
    const Tensor infinite = eq(x.mask.detach(), -std::numeric_limits<double>::infinity());
    scores = clamp(scores + masked_fill(x.mask, infinite, 0), kLowestScore,
                   std::numeric_limits<double>::infinity());
  }
  if (!hidden.defined()) return softmax(scores, -1);
  return masked_fill(softmax(masked_fill(scores, hidden, kHiddenScore), -1), hidden, 0);
}

// 0 for dropped probabilities, else 1 / (1 - dropout), in dtype `dtype`; undefined without dropout.
Tensor kept_probabilities(const AttentionOperands& x, const AttentionAttrs& attrs, DType dtype) {
  if (!attrs.drops()) return {};
  const AttentionSizes sizes = attention_sizes_of(x);
  const Tensor all = ones({sizes.batch, sizes.heads, sizes.queries, sizes.pitch()}, dtype,
                          Format::kContiguous, x.q.device());
  return slice(call_one(ops::dropout, {&all, &x.start}, attrs.as_dropout()), 3, 0, sizes.keys);
}

Tensor times_if_given(const Tensor& x, const Tensor& factor) {
  // Probabilities are rounded once, for the product with v.
  const WithoutPrecisionHook outside;
  return factor.defined() ? x * factor : x;
}

}  // namespace

Tensor attention_by_ops(const AttentionOperands& x, const AttentionAttrs& attrs) {
  const std::int64_t group = attention_sizes_of(x).group();
  const Tensor all = attention_probabilities(x, repeat_heads(x.k, group), attrs);
  const Tensor left = times_if_given(all, kept_probabilities(x, attrs, all.dtype()));
  // The product with v gains from 16 bits, and probabilities are at most 1.
  return matmul(cast(left, x.v.dtype()), repeat_heads(x.v, group));
}

AttentionGrads attention_grads_by_ops(const Tensor& grad, const AttentionOperands& x,
                                      const AttentionAttrs& attrs) {
  const WithoutPrecisionHook guard;
  // Everything is f32 here: what is differentiated twice is small, and 16-bit scores would be
  // wrong.
  const AttentionOperands wide{widen(x.q), widen(x.k), widen(x.v), widen(x.mask), x.start};
  const std::int64_t group = attention_sizes_of(x).group();
  const Tensor keys = repeat_heads(wide.k, group);
  const Tensor rows = widen(grad);
  const Tensor all = attention_probabilities(wide, keys, attrs);
  const Tensor factor = kept_probabilities(x, attrs, all.dtype());
  const Tensor grad_all =
      times_if_given(matmul(rows, repeat_heads(wide.v, group), {.transpose_b = true}), factor);
  const Tensor grad_scores = all * (grad_all - sum(all * grad_all, {-1}, true));
  AttentionGrads grads;
  grads.q = matmul(grad_scores, keys) * attrs.scale;
  grads.k = sum_heads(matmul(grad_scores, wide.q, {.transpose_a = true}) * attrs.scale, group);
  grads.v = sum_heads(matmul(times_if_given(all, factor), rows, {.transpose_a = true}), group);
  if (is_floating_mask(x.mask)) {
    grads.mask = sum_to(grad_scores, x.mask.shape(), grad_scores.dtype());
  }
  return grads;
}

}  // namespace mezzo
