#include "mezzo/ops/layer_norm.h"

#include "mezzo/ops/arithmetic.h"
#include "mezzo/ops/cast.h"
#include "mezzo/ops/dispatcher/call.h"
#include "mezzo/ops/dispatcher/sample.h"
#include "mezzo/ops/fusion/norm_statistics.h"
#include "mezzo/ops/layer_norm_attrs.h"
#include "mezzo/ops/reduce.h"

namespace mezzo {
namespace {

DType statistics_dtype(DType x) { return x == DType::kF64 ? DType::kF64 : DType::kF32; }

void check_weight(const Infer& infer, std::size_t i, const char* name) {
  if (!infer.has(i)) return;
  const DType wanted = statistics_dtype(infer.dtype(LayerNormInput::kX));
  const Shape shape =
      normalized_shape(infer.shape(LayerNormInput::kX), infer.attrs<LayerNormAttrs>());
  infer.check(infer.shape(i) == shape && infer.dtype(i) == wanted, name, " must be ", wanted, shape,
              " for x of shape ", infer.shape(LayerNormInput::kX), ", it is ", infer.input(i),
              ". Give it the shape of the axes that are normalised");
}

void infer_layer_norm(Infer& infer) {
  const auto& attrs = infer.attrs<LayerNormAttrs>();
  infer.check_floating(LayerNormInput::kX, "x");
  const Shape& shape = infer.shape(LayerNormInput::kX);
  infer.check(attrs.axes >= 1 && attrs.axes <= static_cast<std::int64_t>(shape.rank()),
              "cannot normalise the last ", attrs.axes, " axes of shape ", shape, ". Choose 1 to ",
              shape.rank());
  infer.check(normalized_shape(shape, attrs).numel() > 0, "there is nothing to normalise in shape ",
              shape, ". Leave empty axes out");
  infer.check(attrs.eps >= 0, "eps must not be negative: ", attrs.eps, ". Use 1e-5");
  check_weight(infer, LayerNormInput::kWeight, "weight");
  check_weight(infer, LayerNormInput::kBias, "bias");
  const DType statistics = statistics_dtype(infer.dtype(LayerNormInput::kX));
  infer.output(shape, infer.dtype(LayerNormInput::kX));
  infer.output(leading_shape(shape, attrs), statistics);  // mean
  infer.output(leading_shape(shape, attrs), statistics);  // 1 / sqrt(var + eps)
}

void infer_layer_norm_grad(Infer& infer) {
  const auto& attrs = infer.attrs<LayerNormAttrs>();
  const Shape& shape = infer.shape(LayerNormGradInput::kX);
  infer.check_same_dtype(LayerNormGradInput::kX, LayerNormGradInput::kGrad);
  infer.check(infer.shape(LayerNormGradInput::kGrad) == shape, "the gradient has shape ",
              infer.shape(LayerNormGradInput::kGrad), ", x has ", shape,
              ". Give it the shape of x");
  infer.output(shape, infer.dtype(LayerNormGradInput::kX));
  infer.output(normalized_shape(shape, attrs), infer.dtype(LayerNormGradInput::kMean));
  infer.output(normalized_shape(shape, attrs), infer.dtype(LayerNormGradInput::kMean));
}

struct Grads {
  Tensor x;
  Tensor weight;
  Tensor bias;
};

Grads fused_grads(Backward& ctx);

// Gradients from differentiable operations, for gradients of gradients. Statistics are recomputed
// from x: the saved ones are constants to the tape.
Grads grads_by_ops(Backward& ctx) {
  const auto& attrs = ctx.attrs<LayerNormAttrs>();
  const Tensor saved = ctx.input(LayerNormInput::kX);
  const DType dtype = statistics_dtype(saved.dtype());
  Shape last;
  Shape first;
  for (std::int64_t i = 0; i < static_cast<std::int64_t>(saved.rank()); ++i) {
    (i + attrs.axes < static_cast<std::int64_t>(saved.rank()) ? first : last).push_back(i);
  }
  const Tensor x = cast(saved, dtype);
  const Tensor grad = cast(ctx.grad(), dtype);
  const Tensor centered = x - mean(x, last, true);
  const Tensor std = deviation_by_ops(mean(centered * centered, last, true), attrs.eps);
  const Tensor normal = centered / std;
  const Tensor scaled =
      ctx.has_input(LayerNormInput::kWeight) ? grad * ctx.input(LayerNormInput::kWeight) : grad;
  const Tensor rest =
      scaled - mean(scaled, last, true) - normal * mean(scaled * normal, last, true);
  const auto over_rows = [&](const Tensor& t) { return first.empty() ? t : sum(t, first); };
  return {cast(rest / std, saved.dtype()), over_rows(grad * normal), over_rows(grad)};
}

void layer_norm_backward(Backward& ctx) {
  const Grads grads = ctx.create_graph() ? grads_by_ops(ctx) : fused_grads(ctx);
  if (ctx.needs(LayerNormInput::kX)) ctx.set(LayerNormInput::kX, grads.x);
  if (ctx.needs(LayerNormInput::kWeight)) ctx.set(LayerNormInput::kWeight, grads.weight);
  if (ctx.needs(LayerNormInput::kBias)) ctx.set(LayerNormInput::kBias, grads.bias);
}

std::int64_t size_of_last(const Shape& x, std::int64_t axes) {
  return normalized_shape(x, {axes}).numel();
}

Sample sample(const Shape& x, std::int64_t axes, bool affine = true) {
  const Shape last = normalized_shape(x, {axes});
  return {{{x, -1, 2}, {last, 0.5, 1.5, false, !affine}, {last, -0.5, 0.5, false, !affine}},
          LayerNormAttrs{axes, 1e-3},
          size_of_last(x, axes),
          8};
}

Sample grad_sample(const Shape& x, std::int64_t axes, bool affine = true) {
  const LayerNormAttrs attrs{axes, 1e-3};
  const Shape rows = leading_shape(x, attrs);
  return {
      {{x}, {x}, {normalized_shape(x, attrs), 0.5, 1.5, false, !affine}, {rows}, {rows, 0.5, 2}},
      attrs,
      std::max(size_of_last(x, axes), rows.numel()),
      8};
}

}  // namespace

namespace ops {

extern const OpDef layer_norm{
    .name = "layer_norm",
    .doc = "(x - mean) / sqrt(var + eps) * weight + bias over the last axes",
    .precision = {.lower = PrecisionClass::kKeep,
                  .cast_mask = 1U << LayerNormInput::kX,
                  .reason = "keeps the dtype of x; statistics are f32 inside, because sums of "
                            "squares leave f16's range and lose their terms in bf16"},
    .saves = {.inputs = 0b11, .outputs = 0b110},
    .infer = infer_layer_norm,
    .backward = layer_norm_backward,
    .samples = []() -> std::vector<Sample> {
      return {sample({4, 6, 17}, 1), sample({5, 64}, 1),        sample({3, 4, 5, 7}, 3),
              sample({3, 37}, 2),    sample({6, 8}, 1, false),  sample({2, 3, 1000}, 1),
              sample({0, 8}, 1),     sample({2, 3, 4, 5, 6}, 2)};
    },
    .errors = []() -> std::vector<ErrorSample> {
      return {{{{{2, 3}}}, LayerNormAttrs{3}, "cannot normalise the last 3 axes of shape [2, 3]"},
              {{{{2, 0}}}, LayerNormAttrs{1}, "there is nothing to normalise in shape [2, 0]"},
              {{{{2, 3}}, {{2}}}, LayerNormAttrs{1}, "weight must be f32[3]"}};
    },
    .ulps = 8,
};

extern const OpDef layer_norm_grad{
    .name = "layer_norm_grad",
    .doc = "the gradients of layer_norm",
    .precision = {.cast_mask = 1U << LayerNormGradInput::kGrad | 1U << LayerNormGradInput::kX,
                  .reason = "part of a backward pass, which runs in its forward's dtype"},
    .infer = infer_layer_norm_grad,
    .samples = []() -> std::vector<Sample> {
      return {grad_sample({4, 6, 17}, 1), grad_sample({5, 64}, 1), grad_sample({3, 4, 5, 7}, 3),
              grad_sample({700, 3}, 1),   grad_sample({3, 37}, 2), grad_sample({6, 8}, 1, false)};
    },
    .ulps = 8,
};

}  // namespace ops

namespace {

Grads fused_grads(Backward& ctx) {
  const Tensor x = ctx.input(LayerNormInput::kX);
  const Tensor weight =
      ctx.has_input(LayerNormInput::kWeight) ? ctx.input(LayerNormInput::kWeight) : Tensor();
  const Tensor mean = ctx.output(1);
  const Tensor rstd = ctx.output(2);
  Outputs outputs = call(ops::layer_norm_grad, {&ctx.grad(), &x, &weight, &mean, &rstd},
                         ctx.attrs<LayerNormAttrs>());
  return {std::move(outputs[0]), std::move(outputs[1]), std::move(outputs[2])};
}

}  // namespace

Tensor layer_norm(const Tensor& x, const Shape& normalized_shape, const Tensor& weight,
                  const Tensor& bias, double eps) {
  const std::size_t axes = normalized_shape.rank();
  const bool fits =
      axes >= 1 && axes <= x.rank() &&
      std::equal(normalized_shape.begin(), normalized_shape.end(), x.shape().end() - axes);
  check_arg(fits, "layer_norm", "x of shape ", x.shape(), " does not end in the axes ",
            normalized_shape, ". Give the last axes of x");
  const Tensor scale = widen(weight);
  const Tensor shift = widen(bias);
  return call_one(ops::layer_norm, {&x, &scale, &shift},
                  LayerNormAttrs{static_cast<std::int64_t>(axes), eps});
}

}  // namespace mezzo
