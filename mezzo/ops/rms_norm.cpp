#include "mezzo/ops/rms_norm.h"

#include "mezzo/ops/arithmetic.h"
#include "mezzo/ops/cast.h"
#include "mezzo/ops/dispatcher/call.h"
#include "mezzo/ops/dispatcher/sample.h"
#include "mezzo/ops/fusion/norm_statistics.h"
#include "mezzo/ops/reduce.h"
#include "mezzo/ops/rms_norm_attrs.h"

namespace mezzo {
namespace {

DType rms_dtype(DType x) { return x == DType::kF64 ? DType::kF64 : DType::kF32; }

void infer_rms_norm(Infer& infer) {
  const auto& attrs = infer.attrs<LayerNormAttrs>();
  infer.check_floating(RmsNormInput::kX, "x");
  const Shape& shape = infer.shape(RmsNormInput::kX);
  infer.check(attrs.axes >= 1 && attrs.axes <= static_cast<std::int64_t>(shape.rank()),
              "cannot normalise the last ", attrs.axes, " axes of shape ", shape, ". Choose 1 to ",
              shape.rank());
  const Shape last = normalized_shape(shape, attrs);
  infer.check(last.numel() > 0, "there is nothing to normalise in shape ", shape,
              ". Leave empty axes out");
  infer.check(attrs.eps >= 0, "eps must not be negative: ", attrs.eps, ". Use 1e-6");
  const DType statistics = rms_dtype(infer.dtype(RmsNormInput::kX));
  if (infer.has(RmsNormInput::kWeight)) {
    infer.check(infer.shape(RmsNormInput::kWeight) == last &&
                    infer.dtype(RmsNormInput::kWeight) == statistics,
                "weight must be ", statistics, last, " for x of shape ", shape, ", it is ",
                infer.input(RmsNormInput::kWeight),
                ". Give it the shape of the axes that are normalised");
  }
  infer.output(shape, infer.dtype(RmsNormInput::kX));
  infer.output(leading_shape(shape, attrs), statistics);  // 1 / sqrt(mean(x^2) + eps)
}

void infer_rms_norm_grad(Infer& infer) {
  const Shape& shape = infer.shape(RmsNormGradInput::kX);
  infer.check_same_dtype(RmsNormGradInput::kX, RmsNormGradInput::kGrad);
  infer.check(infer.shape(RmsNormGradInput::kGrad) == shape, "the gradient has shape ",
              infer.shape(RmsNormGradInput::kGrad), ", x has ", shape, ". Give it the shape of x");
  infer.output(shape, infer.dtype(RmsNormGradInput::kX));
  infer.output(normalized_shape(shape, infer.attrs<LayerNormAttrs>()),
               infer.dtype(RmsNormGradInput::kRstd));
}

struct RmsGrads {
  Tensor x;
  Tensor weight;
};

RmsGrads fused_rms_grads(Backward& ctx);

// Gradients from differentiable operations, for gradients of gradients. The root is recomputed from
// x: the saved one is a constant to the tape.
RmsGrads rms_grads_by_ops(Backward& ctx) {
  const auto rank = static_cast<std::int64_t>(ctx.input_shape(RmsNormInput::kX).rank());
  const auto& attrs = ctx.attrs<LayerNormAttrs>();
  const Tensor saved = ctx.input(RmsNormInput::kX);
  const DType dtype = rms_dtype(saved.dtype());
  Shape last;
  Shape first;
  for (std::int64_t i = 0; i < rank; ++i) (i + attrs.axes < rank ? first : last).push_back(i);
  const Tensor x = cast(saved, dtype);
  const Tensor grad = cast(ctx.grad(), dtype);
  const Tensor root = deviation_by_ops(mean(x * x, last, true), attrs.eps);
  const Tensor normal = x / root;
  const Tensor scaled =
      ctx.has_input(RmsNormInput::kWeight) ? grad * ctx.input(RmsNormInput::kWeight) : grad;
  const Tensor rest = scaled - normal * mean(scaled * normal, last, true);
  const Tensor products = grad * normal;
  return {cast(rest / root, saved.dtype()), first.empty() ? products : sum(products, first)};
}

void rms_norm_backward(Backward& ctx) {
  const RmsGrads grads = ctx.create_graph() ? rms_grads_by_ops(ctx) : fused_rms_grads(ctx);
  if (ctx.needs(RmsNormInput::kX)) ctx.set(RmsNormInput::kX, grads.x);
  if (ctx.needs(RmsNormInput::kWeight)) ctx.set(RmsNormInput::kWeight, grads.weight);
}

Sample rms_sample(const Shape& x, std::int64_t axes, bool affine = true) {
  const Shape last = normalized_shape(x, {axes});
  return {
      {{x, -1, 2}, {last, 0.5, 1.5, false, !affine}}, LayerNormAttrs{axes, 1e-3}, last.numel(), 8};
}

Sample rms_grad_sample(const Shape& x, std::int64_t axes, bool affine = true) {
  const LayerNormAttrs attrs{axes, 1e-3};
  const Shape rows = leading_shape(x, attrs);
  const Shape last = normalized_shape(x, attrs);
  return {{{x}, {x}, {last, 0.5, 1.5, false, !affine}, {rows, 0.5, 2}},
          attrs,
          std::max(last.numel(), rows.numel()),
          8};
}

}  // namespace

namespace ops {

extern const OpDef rms_norm{
    .name = "rms_norm",
    .doc = "x / sqrt(mean(x^2) + eps) * weight over the last axes",
    .precision = {.lower = PrecisionClass::kKeep,
                  .cast_mask = 1U << RmsNormInput::kX,
                  .reason = "keeps the dtype of x; the mean square is f32 inside, because squares "
                            "of 256 leave f16's range and sums of them lose their terms in bf16"},
    .saves = {.inputs = 0b11, .outputs = 0b10},
    .infer = infer_rms_norm,
    .backward = rms_norm_backward,
    .samples = []() -> std::vector<Sample> {
      return {rms_sample({4, 6, 17}, 1), rms_sample({5, 64}, 1),        rms_sample({3, 4, 5, 7}, 3),
              rms_sample({3, 37}, 2),    rms_sample({6, 8}, 1, false),  rms_sample({2, 3, 1000}, 1),
              rms_sample({0, 8}, 1),     rms_sample({2, 3, 4, 5, 6}, 2)};
    },
    .errors = []() -> std::vector<ErrorSample> {
      return {{{{{2, 3}}}, LayerNormAttrs{3}, "cannot normalise the last 3 axes of shape [2, 3]"},
              {{{{2, 0}}}, LayerNormAttrs{1}, "there is nothing to normalise in shape [2, 0]"},
              {{{{2, 3}}}, LayerNormAttrs{1, -1}, "eps must not be negative: -1"},
              {{{{2, 3}}, {{2}}}, LayerNormAttrs{1}, "weight must be f32[3]"}};
    },
    .ulps = 8,
};

extern const OpDef rms_norm_grad{
    .name = "rms_norm_grad",
    .doc = "the gradients of rms_norm",
    .precision = {.cast_mask = 1U << RmsNormGradInput::kGrad | 1U << RmsNormGradInput::kX,
                  .reason = "part of a backward pass, which runs in its forward's dtype"},
    .infer = infer_rms_norm_grad,
    .samples = []() -> std::vector<Sample> {
      return {rms_grad_sample({4, 6, 17}, 1),   rms_grad_sample({5, 64}, 1),
              rms_grad_sample({3, 4, 5, 7}, 3), rms_grad_sample({700, 3}, 1),
              rms_grad_sample({3, 37}, 2),      rms_grad_sample({6, 8}, 1, false)};
    },
    .ulps = 8,
};

}  // namespace ops

namespace {

RmsGrads fused_rms_grads(Backward& ctx) {
  const Tensor x = ctx.input(RmsNormInput::kX);
  const Tensor weight =
      ctx.has_input(RmsNormInput::kWeight) ? ctx.input(RmsNormInput::kWeight) : Tensor();
  const Tensor rstd = ctx.output(1);
  Outputs outputs =
      call(ops::rms_norm_grad, {&ctx.grad(), &x, &weight, &rstd}, ctx.attrs<LayerNormAttrs>());
  return {std::move(outputs[0]), std::move(outputs[1])};
}

}  // namespace

Tensor rms_norm(const Tensor& x, const Shape& normalized_shape, const Tensor& weight,
                std::optional<double> eps) {
  const std::size_t axes = normalized_shape.rank();
  const bool fits =
      axes >= 1 && axes <= x.rank() &&
      std::equal(normalized_shape.begin(), normalized_shape.end(), x.shape().end() - axes);
  check_arg(fits, "rms_norm", "x of shape ", x.shape(), " does not end in the axes ",
            normalized_shape, ". Give the last axes of x");
  const Tensor scale = widen(weight);
  // The epsilon of bf16, 0.0078, would make a network in bf16 another function than in f32.
  const double chosen = eps.value_or(epsilon_of(rms_dtype(x.dtype())));
  return call_one(ops::rms_norm, {&x, &scale},
                  LayerNormAttrs{static_cast<std::int64_t>(axes), chosen});
}

}  // namespace mezzo
