#include "mezzo/ops/attention_grad.h"

#include <algorithm>
#include <cmath>

#include "mezzo/ops/all.h"
#include "mezzo/ops/attention_by_ops.h"
#include "mezzo/ops/cast.h"
#include "mezzo/ops/dispatcher/call.h"
#include "mezzo/ops/shape_ops.h"

namespace mezzo {
namespace {

using AttentionIn = AttentionInput;
using AttentionGradIn = AttentionGradInput;

void infer_attention_grad(Infer& infer) {
  const auto& attrs = infer.attrs<AttentionAttrs>();
  const AttentionSizes sizes = check_attention(infer, AttentionGradIn::kQ, attrs);
  const Shape result{sizes.batch, sizes.queries, sizes.heads, sizes.values};
  const Shape rows{sizes.batch, sizes.heads, sizes.queries};
  const DType dtype = infer.dtype(AttentionGradIn::kQ);
  infer.check(infer.shape(AttentionGradIn::kGrad) == result &&
                  infer.shape(AttentionGradIn::kResult) == result,
              "the gradient has the shape ", infer.shape(AttentionGradIn::kGrad), ", the result ",
              infer.shape(AttentionGradIn::kResult), ". Give both ", result);
  infer.check(infer.shape(AttentionGradIn::kLse) == rows &&
                  infer.dtype(AttentionGradIn::kLse) == attention_statistics_dtype(dtype),
              "log-sum-exp must be ", attention_statistics_dtype(dtype), rows, ", it is ",
              infer.input(AttentionGradIn::kLse), ". Give that of the forward pass");
  infer.check_same_dtype(AttentionGradIn::kQ, AttentionGradIn::kGrad);
  infer.check_same_dtype(AttentionGradIn::kQ, AttentionGradIn::kResult);
  infer.output(infer.shape(AttentionGradIn::kQ), dtype);
  infer.output(infer.shape(AttentionGradIn::kK), dtype);
  infer.output(infer.shape(AttentionGradIn::kV), dtype);
}

// Multiplications and additions of the five products: scores, the gradient of probabilities, and
// the gradients of q, k and v.
double attention_grad_flops(Inputs inputs, std::span<const Tensor> /*outputs*/,
                            const Attrs& attrs) {
  const AttentionSizes sizes(inputs[AttentionGradIn::kQ]->shape(),
                             inputs[AttentionGradIn::kK]->shape(),
                             inputs[AttentionGradIn::kV]->shape());
  const std::int64_t terms = 3 * sizes.features + 2 * sizes.values;
  return 2 * static_cast<double>(sizes.batch * sizes.heads * terms) *
         sizes.scores(attrs.as<AttentionAttrs>().causal);
}

// [b, t, h, d] <-> [b, h, t, d], a view.
Tensor attention_heads_first(const Tensor& x) { return permute(x, {0, 2, 1, 3}); }

AttentionOperands saved_operands(const Backward& ctx) {
  const auto optional = [&](std::size_t i) { return ctx.has_input(i) ? ctx.input(i) : Tensor(); };
  return {attention_heads_first(ctx.input(AttentionIn::kQ)),
          attention_heads_first(ctx.input(AttentionIn::kK)),
          attention_heads_first(ctx.input(AttentionIn::kV)), optional(AttentionIn::kMask),
          optional(AttentionIn::kStart)};
}

void set_grads_by_ops(Backward& ctx, bool only_mask) {
  const auto& attrs = ctx.attrs<AttentionAttrs>();
  const AttentionGrads grads =
      attention_grads_by_ops(attention_heads_first(ctx.grad()), saved_operands(ctx), attrs);
  const auto set = [&](std::size_t i, const Tensor& grad) {
    if (ctx.needs(i)) ctx.set(i, cast(attention_heads_first(grad), ctx.input_dtype(i)));
  };
  if (ctx.needs(AttentionIn::kMask)) ctx.set(AttentionIn::kMask, grads.mask);
  if (only_mask) return;
  set(AttentionIn::kQ, grads.q);
  set(AttentionIn::kK, grads.k);
  set(AttentionIn::kV, grads.v);
}

}  // namespace

Sample attention_grad_sample(const AttentionCase& c) {
  const Shape result{c.batch, c.queries, c.heads, c.values};
  // Probabilities are about 1 / keys.
  const double lse = std::log(static_cast<double>(std::max<std::int64_t>(c.keys, 1))) + 1;
  std::vector<SampleInput> inputs = c.inputs();
  inputs.insert(inputs.begin(), {result});
  inputs.push_back({result});
  inputs.push_back({{c.batch, c.heads, c.queries}, lse, lse + 1});
  // A gradient of a key is a sum over all queries that see it.
  const double sums = static_cast<double>(c.queries * (c.heads / c.key_heads)) /
                      static_cast<double>(std::max<std::int64_t>(c.keys, 1));
  return {.inputs = std::move(inputs),
          .attrs = c.attrs,
          .terms = c.features + c.values + std::max(c.keys, c.queries),
          .magnitude = (c.attrs.drops() ? 2.0 : 1.0) * std::max(1.0, sums),
          .lower_roundings = 4};
}

std::vector<SampleInput> AttentionCase::inputs() const {
  return {{{batch, queries, heads, features}},
          {{batch, keys, key_heads, features}},
          {{batch, keys, key_heads, values}},
          {.shape = mask, .absent = mask.empty(), .boolean = boolean}};
}

std::vector<AttentionCase> attention_cases() {
  const AttentionAttrs plain{.scale = 0.5};
  const AttentionAttrs causal{.causal = true, .scale = 0.25};
  const AttentionAttrs drops{.scale = 0.5, .dropout = 0.5, .position = {11, 4}};
  const AttentionAttrs both{.causal = true, .scale = 0.5, .dropout = 0.25, .position = {3, 0}};
  return {
      {1, 1, 1, 1, 1, 1, 1, plain},
      {2, 7, 7, 2, 2, 32, 32, plain},
      {1, 20, 20, 2, 1, 16, 16, causal},
      {1, 7, 33, 3, 1, 5, 9, causal},
      {2, 1, 129, 2, 2, 8, 8, causal},
      {1, 70, 70, 1, 1, 4, 3, causal},
      {1, 5, 70, 4, 2, 12, 20, plain},
      {1, 3, 5, 1, 1, 80, 80, plain},
      {1, 3, 5, 1, 1, 96, 128, plain},
      {1, 5, 3, 1, 1, 256, 64, plain},
      {2, 9, 17, 2, 1, 8, 8, plain, {2, 1, 1, 17}, true},
      {2, 9, 17, 2, 1, 8, 8, plain, {1, 2, 9, 17}, true},
      {2, 9, 9, 2, 2, 8, 8, causal, {2, 1, 9, 9}, true},
      {2, 9, 17, 2, 1, 8, 8, plain, {1, 1, 9, 1}, true},
      {2, 9, 17, 2, 1, 8, 8, plain, {1, 1, 9, 17}},
      {2, 9, 9, 2, 1, 8, 8, causal, {2, 2, 1, 9}},
      {1, 9, 14, 2, 1, 8, 8, drops},
      {2, 7, 7, 2, 2, 8, 8, both, {2, 1, 1, 7}, true},
      {1, 4, 0, 2, 2, 8, 8, plain},
      {0, 4, 4, 2, 2, 8, 8, plain},
      {1, 0, 4, 2, 2, 8, 8, plain},
  };
}

void attention_backward(Backward& ctx) {
  if (ctx.create_graph()) return set_grads_by_ops(ctx, false);
  if (ctx.needs(AttentionIn::kMask)) set_grads_by_ops(ctx, true);
  const auto optional = [&](std::size_t i) { return ctx.has_input(i) ? ctx.input(i) : Tensor(); };
  const bool needs_others =
      ctx.needs(AttentionIn::kQ) || ctx.needs(AttentionIn::kK) || ctx.needs(AttentionIn::kV);
  if (!needs_others) return;
  const Tensor q = ctx.input(AttentionIn::kQ);
  const Tensor k = ctx.input(AttentionIn::kK);
  const Tensor v = ctx.input(AttentionIn::kV);
  const Tensor mask = optional(AttentionIn::kMask);
  const Tensor start = optional(AttentionIn::kStart);
  const Tensor result = ctx.output(0);
  const Tensor lse = ctx.output(1);
  const Outputs grads =
      call(ops::attention_grad, {&ctx.grad(), &q, &k, &v, &mask, &result, &lse, &start},
           ctx.attrs<AttentionAttrs>());
  for (std::size_t i = 0; i < 3; ++i) {
    if (ctx.needs(i)) ctx.set(i, grads[i]);
  }
}

namespace ops {

extern const OpDef attention_grad{
    .name = "attention_grad",
    .doc = "the gradients of attention; probabilities are made again from log-sum-exp",
    .precision = {.cast_mask = 1U << AttentionGradIn::kGrad | 1U << AttentionGradIn::kQ |
                               1U << AttentionGradIn::kK | 1U << AttentionGradIn::kV |
                               1U << AttentionGradIn::kResult,
                  .reason = "part of a backward pass, which runs in its forward's dtype"},
    .infer = infer_attention_grad,
    .flops = attention_grad_flops,
    .samples = []() -> std::vector<Sample> {
      std::vector<Sample> samples;
      for (const AttentionCase& c : attention_cases()) samples.push_back(attention_grad_sample(c));
      return samples;
    },
    .ulps = 16,
};

}  // namespace ops

}  // namespace mezzo
