#include "mezzo/ops/batch_norm_grad.h"

#include "mezzo/ops/arithmetic.h"
#include "mezzo/ops/batch_norm.h"
#include "mezzo/ops/cast.h"
#include "mezzo/ops/dispatcher/call.h"
#include "mezzo/ops/dispatcher/grad_mode.h"
#include "mezzo/ops/dispatcher/sample.h"
#include "mezzo/ops/fusion/norm_statistics.h"
#include "mezzo/ops/reduce.h"
#include "mezzo/ops/relu.h"
#include "mezzo/ops/shape_ops.h"

namespace mezzo {
namespace {

using NormGradIn = BatchNormGradInput;

void infer_batch_norm_grad(Infer& infer) {
  const Shape& shape = infer.shape(NormGradIn::kX);
  infer.check_same_dtype(NormGradIn::kX, NormGradIn::kGrad);
  infer.check(infer.shape(NormGradIn::kGrad) == shape, "the gradient has shape ",
              infer.shape(NormGradIn::kGrad), ", x has ", shape, ". Give it the shape of x");
  const bool has_residual = infer.has(NormGradIn::kY) || infer.has(NormGradIn::kResidual);
  if (infer.has(NormGradIn::kResidual)) {
    infer.check_same_dtype(NormGradIn::kX, NormGradIn::kResidual);
    infer.check(!infer.has(NormGradIn::kY) && infer.shape(NormGradIn::kResidual) == shape,
                "the residual is given instead of y and has the shape of x, ", shape, ", not ",
                infer.shape(NormGradIn::kResidual), ". Give one of them");
  }
  if (infer.has(NormGradIn::kOtherGrad)) {
    infer.check_same_dtype(NormGradIn::kX, NormGradIn::kOtherGrad);
    infer.check(has_residual && infer.shape(NormGradIn::kOtherGrad) == shape,
                "a second gradient goes with y and has the shape of x, ", shape, ", not ",
                infer.shape(NormGradIn::kOtherGrad), ". Leave it out");
  }
  const Format format = shape.rank() == 4 ? Format::kChannelsLast : Format::kContiguous;
  const DType stats = infer.dtype(NormGradIn::kMean);
  infer.output(shape, infer.dtype(NormGradIn::kX), format);
  infer.output({shape[1]}, stats);
  infer.output({shape[1]}, stats);
  if (has_residual) infer.output(shape, infer.dtype(NormGradIn::kX), format);
}

Sample sample(const Shape& x, const BatchNormAttrs& attrs, bool residual) {
  const SampleInput channels{{x[1]}, 0.5, 1.5};
  Sample result{{{x, -2, 2}, {x, -1, 2}, channels, {{x[1]}, -0.5, 0.5}, channels, channels},
                attrs,
                std::max<std::int64_t>(1, x.numel() / x[1]),
                8};
  if (residual) result.inputs.push_back({x, -1, 1});
  return result;
}

// The gradients are constant: kernels round their sum to the dtype, as an addition does, and the
// oracle does not.
Sample sample_of_two(const Shape& x) {
  Sample result = sample(x, {true, true, 1e-3}, true);
  result.inputs[NormGradIn::kGrad] = {x, 0.5, 0.5};
  result.inputs.push_back({x, 0.25, 0.25});
  return result;
}

// The same sample with the residual instead of y.
Sample with_residual(Sample sample) {
  sample.inputs.resize(NormGradIn::kResidual + 1, {.shape = {}, .absent = true});
  std::swap(sample.inputs[NormGradIn::kY], sample.inputs[NormGradIn::kResidual]);
  return sample;
}

std::vector<Sample> grad_samples() {
  std::vector<Sample> samples{sample_of_two({4, 65, 3, 3}), sample_of_two({5, 3}),
                              with_residual(sample_of_two({3, 17, 4, 4})),
                              with_residual(sample({4, 65, 3, 3}, {true, true, 1e-3}, true)),
                              with_residual(sample({7, 5}, {false, true, 1e-3}, true))};
  for (const bool training : {true, false}) {
    for (const bool relu : {false, true}) {
      const BatchNormAttrs attrs{training, relu, 1e-3};
      samples.push_back(sample({3, 4, 3, 5}, attrs, false));
      samples.push_back(sample({5, 17, 2, 3}, attrs, relu));
      samples.push_back(sample({33, 3}, attrs, false));
      samples.push_back(sample({4, 65, 3, 3}, attrs, relu));
      samples.push_back(sample({3, 1030}, attrs, relu));
    }
  }
  Sample bare = sample({4, 5, 3, 3}, {true, true, 1e-3}, false);
  bare.inputs[NormGradIn::kWeight].absent = true;
  bare.inputs[NormGradIn::kBias].absent = true;
  samples.push_back(bare);
  return samples;
}

}  // namespace

namespace ops {

extern const OpDef batch_norm_grad{
    .name = "batch_norm_grad",
    .doc = "the gradients of batch_norm and batch_norm_add_relu",
    .precision = {.cast_mask = 1U << NormGradIn::kGrad | 1U << NormGradIn::kX |
                               1U << NormGradIn::kY | 1U << NormGradIn::kOtherGrad |
                               1U << NormGradIn::kResidual,
                  .reason = "part of a backward pass, which runs in its forward's dtype"},
    .infer = infer_batch_norm_grad,
    .exchanges = batch_norm_exchanges,
    .samples = grad_samples,
    .ulps = 8,
};

}  // namespace ops

BatchNormGrads batch_norm_grad(Tensor grad, BatchNormSaved saved, const BatchNormAttrs& attrs,
                               const Tensor& other_grad) {
  // Absent inputs at the end are left out.
  const Tensor* const inputs[] = {&grad,      &saved.x, &saved.weight, &saved.bias,    &saved.mean,
                                  &saved.var, &saved.y, &other_grad,   &saved.residual};
  const std::size_t count = saved.residual.defined() ? NormGradIn::kResidual + 1
                            : other_grad.defined()   ? NormGradIn::kOtherGrad + 1
                                                     : NormGradIn::kY + 1;
  // Write results over operands: their cache lines are already loaded. New memory would be read
  // before it is written, and would evict the operands, which are read twice.
  const bool has_residual = saved.has_residual();
  const Tensor* const over[] = {has_residual ? &saved.x : &grad, nullptr, nullptr,
                                has_residual ? &grad : nullptr};
  Outputs outputs = call_over(ops::batch_norm_grad, Inputs(inputs).first(count), attrs, over);
  BatchNormGrads grads{std::move(outputs[0]), std::move(outputs[1]), std::move(outputs[2]), {}};
  if (has_residual) grads.residual = std::move(outputs[3]);
  return grads;
}

namespace {

// The result of a forward pass with a residual, for its signs. These must be the exact signs of the
// forward pass; computing the result with separate operations, or without its rounding, would
// change some of them.
Tensor result_of(const BatchNormSaved& saved, const BatchNormAttrs& attrs) {
  if (saved.y.defined()) return saved.y;
  const NoGrad guard;
  return batch_norm(saved.x, saved.weight, saved.bias,
                    {.training = false,
                     .eps = attrs.eps,
                     .relu = attrs.relu,
                     .residual = saved.residual,
                     .running_mean = saved.mean,
                     .running_var = saved.var})
      .y;
}

}  // namespace

BatchNormGrads batch_norm_grad_by_ops(const Tensor& grad, const BatchNormSaved& saved,
                                      const BatchNormAttrs& attrs) {
  const Shape& shape = saved.x.shape();
  const DType dtype = saved.mean.dtype();
  const Shape axes = shape.rank() == 4 ? Shape{0, 2, 3} : Shape{0};
  Shape broadcast = Shape::filled(shape.rank(), 1);
  broadcast[1] = shape[1];
  const auto spread = [&](const Tensor& t) { return reshape(t, broadcast); };
  const double share = static_cast<double>(shape[1]) / static_cast<double>(shape.numel());

  // The statistics are recomputed from x: the saved ones are constants to the tape.
  const Tensor x = cast(saved.x, dtype);
  const Tensor centered = x - (attrs.training ? mean(x, axes, true) : spread(saved.mean));
  const Tensor var = attrs.training ? mean(centered * centered, axes, true) : spread(saved.var);
  const Tensor rstd =
      ones({}, dtype, Format::kContiguous, x.device()) / deviation_by_ops(var, attrs.eps);
  const Tensor normal = centered * rstd;
  const Tensor scale = saved.weight.defined() ? rstd * spread(saved.weight) : rstd;

  Tensor masked = cast(grad, dtype);
  if (saved.has_residual()) {
    masked = relu_grad(masked, cast(result_of(saved, attrs).detach(), dtype));
  } else if (attrs.relu) {
    Tensor y = centered.detach() * scale.detach();
    if (saved.bias.defined()) y = y + spread(saved.bias).detach();
    masked = relu_grad(masked, y);
  }
  BatchNormGrads grads;
  grads.bias = sum(masked, axes);
  grads.weight = sum(masked * normal, axes);
  if (saved.has_residual()) grads.residual = cast(masked, saved.x.dtype());
  Tensor rest = masked;
  if (attrs.training) {
    rest = masked - (spread(grads.bias) + normal * spread(grads.weight)) * share;
  }
  grads.x = cast(scale * rest, saved.x.dtype());
  return grads;
}

}  // namespace mezzo
