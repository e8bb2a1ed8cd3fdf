#include "mezzo/ops/attention.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "mezzo/ops/attention_by_ops.h"
#include "mezzo/ops/attention_grad.h"
#include "mezzo/ops/cast.h"
#include "mezzo/ops/dispatcher/call.h"
#include "mezzo/ops/shape_ops.h"

namespace mezzo {
namespace {

using AttentionIn = AttentionInput;

void infer_attention(Infer& infer) {
  const auto& attrs = infer.attrs<AttentionAttrs>();
  const AttentionSizes sizes = check_attention(infer, AttentionIn::kQ, attrs);
  const DType dtype = infer.dtype(AttentionIn::kQ);
  infer.output({sizes.batch, sizes.queries, sizes.heads, sizes.values}, dtype);
  infer.output({sizes.batch, sizes.heads, sizes.queries}, attention_statistics_dtype(dtype));
}

// Multiplications and additions of the two products, without what `causal` hides.
double attention_flops(Inputs inputs, std::span<const Tensor> /*outputs*/, const Attrs& attrs) {
  const AttentionSizes sizes(inputs[AttentionIn::kQ]->shape(), inputs[AttentionIn::kK]->shape(),
                             inputs[AttentionIn::kV]->shape());
  return 2 * static_cast<double>(sizes.batch * sizes.heads * (sizes.features + sizes.values)) *
         sizes.scores(attrs.as<AttentionAttrs>().causal);
}

std::vector<Sample> attention_samples() {
  std::vector<Sample> samples;
  for (const AttentionCase& c : attention_cases()) samples.push_back(attention_sample(c));
  return samples;
}

std::vector<ErrorSample> attention_errors() {
  const SampleInput x{{2, 3, 4, 8}};
  const AttentionAttrs causal{.causal = true};
  return {
      {{{{2, 3, 8}}, x, x}, AttentionAttrs{}, "q must have 4 dimensions"},
      {{x, {{2, 3, 3, 8}}, {{2, 3, 3, 8}}}, AttentionAttrs{}, "4 heads of q cannot share 3"},
      {{x, {{2, 3, 4, 7}}, x}, AttentionAttrs{}, "q has 8 features, k has 7"},
      {{x, x, {{2, 5, 4, 8}}}, AttentionAttrs{}, "k has the shape [2, 3, 4, 8], v [2, 5, 4, 8]"},
      {{{{1, 3, 4, 8}}, x, x}, AttentionAttrs{}, "q has the shape [1, 3, 4, 8], k [2, 3, 4, 8]"},
      {{{{2, 3, 4, 0}}, {{2, 3, 4, 0}}, x}, AttentionAttrs{}, "there are no features"},
      {{{{2, 3, 0, 8}}, x, x}, AttentionAttrs{}, "there are no heads in q of shape [2, 3, 0, 8]"},
      {{{{2, 4, 4, 8}}, x, x}, causal, "4 queries, but only 3 keys"},
      {{x, x, x, {{3, 1, 3, 3}}},
       AttentionAttrs{},
       "the mask [3, 1, 3, 3] does not broadcast to [2, 4, 3, 3]"},
      {{x, x, x, {{2, 1, 3, 3}, 0, 2, true}}, AttentionAttrs{}, "must be bool or f32, it is i64"},
      {{x, x, x}, AttentionAttrs{.dropout = 1.5}, "dropout must be in [0, 1): 1.5"}};
}

// The mask with four dimensions, in a dtype that kernels read.
Tensor as_attention_mask(const Tensor& mask, DType dtype) {
  if (!mask.defined()) return mask;
  check_arg(mask.rank() <= 4, "attention", "the mask must broadcast to [b, h, t, s], its shape is ",
            mask.shape(), ". Use reshape()");
  Shape shape = Shape::filled(4 - mask.rank(), 1);
  for (const std::int64_t size : mask.shape()) shape.push_back(size);
  const Tensor all = mask.rank() == 4 ? mask : reshape(mask, shape);
  // A 16-bit mask is widened: it is small, and scores are f32.
  return is_floating(all.dtype()) ? all.astype(attention_statistics_dtype(dtype)) : all;
}

// [b, h, t, d] <-> [b, t, h, d], a view.
Tensor swap_attention_heads(const Tensor& x) { return permute(x, {0, 2, 1, 3}); }

void check_operand(const Tensor& x, const char* name) {
  check_arg(x.defined() && x.rank() == 4, "attention", name,
            " must have 4 dimensions, [batch, heads, positions, features]. Use reshape()");
}

RandomPosition reserve_attention_words(const AttentionOperands& x) {
  const AttentionSizes sizes(swap_attention_heads(x.q).shape(), swap_attention_heads(x.k).shape(),
                             swap_attention_heads(x.v).shape());
  return default_generator().reserve(static_cast<std::uint64_t>(sizes.words()));
}

// Kernels of devices do not take heads of that size, and copying everything to the host for the
// plain loop would be of no use: there attention is composed of operations that have kernels.
bool is_composed(const AttentionOperands& x) {
  return !x.q.device().is_cpu() &&
         std::max(x.q.size(3), x.v.size(3)) > AttentionSizes::kMostOnDevices;
}

Tensor composed_attention(AttentionOperands x, DType dtype, const AttentionAttrs& attrs) {
  x.q = cast(x.q, dtype);
  x.k = cast(x.k, dtype);
  x.v = cast(x.v, dtype);
  const Tensor rows = swap_attention_heads(x.q);
  const Tensor keys = swap_attention_heads(x.k);
  const Tensor values = swap_attention_heads(x.v);
  const Tensor* const inputs[] = {&rows, &keys, &values, &x.mask};
  check_attention(Infer("attention", inputs, attrs), AttentionIn::kQ, attrs);
  return attention_by_ops(x, attrs);
}

}  // namespace

Sample attention_sample(const AttentionCase& c) {
  return {.inputs = c.inputs(),
          .attrs = c.attrs,
          .terms = c.features + c.keys,
          .magnitude = c.attrs.drops() ? 2.0 : 1.0,
          .lower_roundings = 1};
}

AttentionSizes check_attention(const Infer& infer, std::size_t first, const AttentionAttrs& attrs) {
  infer.check_rank(first, 4, "q");
  infer.check_rank(first + 1, 4, "k");
  infer.check_rank(first + 2, 4, "v");
  infer.check_floating(first, "q");
  infer.check_same_dtype(first, first + 1);
  infer.check_same_dtype(first, first + 2);
  const Shape& q = infer.shape(first);
  const Shape& k = infer.shape(first + 1);
  const Shape& v = infer.shape(first + 2);
  const AttentionSizes sizes(q, k, v);
  infer.check(q[0] == k[0], "the batches differ: q has the shape ", q, ", k ", k,
              ". Give both the same first size");
  infer.check(std::equal(k.begin(), k.begin() + 3, v.begin()),
              "keys and values differ: k has the "
              "shape ",
              k, ", v ", v, ". Only their last sizes may differ");
  infer.check(q[3] == k[3], "q has ", q[3], " features, k has ", k[3], ". Give both the same");
  infer.check(q[3] > 0, "there are no features in q of shape ", q, ". Leave it out");
  infer.check(q[2] > 0, "there are no heads in q of shape ", q, ". Leave it out");
  infer.check(k[2] > 0 && q[2] % k[2] == 0, "the ", q[2], " heads of q cannot share ", k[2],
              " of k and v. Choose a number that divides them");
  infer.check(!attrs.causal || sizes.queries <= sizes.keys, "causal attention has ", sizes.queries,
              " queries, but only ", sizes.keys, " keys. Give each query a key");
  infer.check(attrs.dropout >= 0 && attrs.dropout < 1, "dropout must be in [0, 1): ", attrs.dropout,
              ". Give the probability that an element is dropped");
  if (infer.has(first + 3)) {
    const Shape& mask = infer.shape(first + 3);
    const Shape full{sizes.batch, sizes.heads, sizes.queries, sizes.keys};
    bool fits = mask.rank() == 4;
    for (std::size_t i = 0; fits && i < 4; ++i) fits = mask[i] == 1 || mask[i] == full[i];
    infer.check(fits, "the mask ", mask, " does not broadcast to ", full, ". Use reshape()");
    const DType wanted = attention_statistics_dtype(infer.dtype(first));
    const DType dtype = infer.dtype(first + 3);
    infer.check(dtype == DType::kBool || dtype == wanted, "the mask must be bool or ", wanted,
                ", it is ", dtype, ". Use astype()");
  }
  return sizes;
}

namespace ops {

extern const OpDef attention{
    .name = "attention",
    .doc =
        "softmax(q k^T * scale + mask) v per head; attention() takes q [b, h, t, d] and so on, and "
        "swaps the axes to q [b, t, h, d], k [b, s, h_kv, d], v [b, s, h_kv, dv]",
    .precision = {.lower = PrecisionClass::kLower,
                  .cast_mask = 0b111,
                  .reason = "the products gain from 16 bits; scores and the statistics of softmax "
                            "are f32 inside, so that f16 cannot overflow and bf16 tells keys "
                            "apart"},
    .saves = {.inputs = 0b11111, .outputs = 0b11},
    .promote = 0b111,
    .infer = infer_attention,
    .flops = attention_flops,
    .backward = attention_backward,
    .grad_inputs = 0b1111,
    .samples = attention_samples,
    .errors = attention_errors,
    .ulps = 16,
};

}  // namespace ops

Tensor attention(const Tensor& q, const Tensor& k, const Tensor& v,
                 const AttentionOptions& options) {
  check_operand(q, "q");
  check_operand(k, "k");
  check_operand(v, "v");
  check_arg(options.dropout >= 0 && options.dropout < 1, "attention",
            "dropout must be in [0, 1): ", options.dropout,
            ". Give the probability that an element is dropped");
  const DType dtype = promote(promote(q.dtype(), k.dtype()), v.dtype());
  AttentionAttrs attrs{.causal = options.causal, .dropout = options.dropout};
  attrs.scale = options.scale.value_or(1 / std::sqrt(static_cast<double>(q.shape()[3])));
  AttentionOperands x{q, k, v, as_attention_mask(options.mask, dtype), Tensor()};
  if (attrs.drops()) attrs.position = reserve_attention_words(x);
  if (is_composed(x)) return composed_attention(std::move(x), dtype, attrs);
  const Tensor rows = swap_attention_heads(q);
  const Tensor keys = swap_attention_heads(k);
  const Tensor values = swap_attention_heads(v);
  return swap_attention_heads(
      call(ops::attention, {&rows, &keys, &values, &x.mask, &x.start}, attrs)[0]);
}

}  // namespace mezzo
