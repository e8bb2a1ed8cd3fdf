#include "mezzo/ops/smooth_l1_loss.h"

#include <cmath>

#include "mezzo/ops/arithmetic.h"
#include "mezzo/ops/cast.h"
#include "mezzo/ops/dispatcher/call.h"
#include "mezzo/ops/dispatcher/sample.h"
#include "mezzo/ops/piecewise.h"
#include "mezzo/ops/reduced_loss.h"
#include "mezzo/ops/smooth_l1_loss_attrs.h"

namespace mezzo {
namespace {

std::string other_shapes(const Shape& prediction, const Shape& target) {
  return concat("the prediction has shape ", prediction, ", the target ", target,
                ". Give both the same shape");
}

void infer_smooth_l1(Infer& infer) {
  infer.check_floating(0, "the prediction");
  infer.check_floating(1, "the target");
  if (infer.shape(0) != infer.shape(1)) {
    infer.check(false, other_shapes(infer.shape(0), infer.shape(1)));
  }
  const auto& attrs = infer.attrs<SmoothL1Attrs>();
  infer.check(std::isfinite(attrs.beta) && attrs.beta >= 0, "beta is ", attrs.beta,
              ". Give a finite number, 0 or more");
  infer.check(std::isfinite(attrs.slope) && attrs.slope > 0, "the slope is ", attrs.slope,
              ". Give a finite number above 0");
  // The elements of a loss are summed next, so they are not rounded to 16 bits first.
  const bool wide = infer.dtype(0) == DType::kF64;
  infer.output(infer.shape(0), wide ? DType::kF64 : DType::kF32, infer.input(0).format());
}

// The derivative with respect to d, times grad. Distances in 16 bits would lose their digits.
Tensor smooth_l1_grad(const Tensor& grad, const Tensor& d, const SmoothL1Attrs& attrs) {
  const double slope = attrs.slope;
  if (attrs.beta == 0) return abs_grad(grad * slope, d);
  return grad * clamp(d * (slope / attrs.beta), -slope, slope);
}

}  // namespace

namespace ops {

extern const OpDef smooth_l1_loss{
    .name = "smooth_l1_loss",
    .doc =
        "slope * d^2 / (2 beta) where d < beta, slope * (d - beta / 2) elsewhere, of the distance "
        "d between prediction and target, element by element",
    .precision = {.lower = PrecisionClass::kFloat32,
                  .reason = "rounding targets to 16 bits changes them, and predictions near them "
                            "lose their distance"},
    .saves = {.inputs = 0b11},
    .promote = 0b11,
    .infer = infer_smooth_l1,
    .backward =
        [](Backward& ctx) {
          const Tensor d = widen(ctx.input(0)) - widen(ctx.input(1));
          const Tensor grad = smooth_l1_grad(ctx.grad(), d, ctx.attrs<SmoothL1Attrs>());
          if (ctx.needs(0)) ctx.set(0, grad);
          if (ctx.needs(1)) ctx.set(1, -grad);
        },
    .samples = []() -> std::vector<Sample> {
      const auto sample = [](const Shape& shape, SmoothL1Attrs attrs) {
        return Sample{{{shape}, {shape}}, attrs, 1, 4};
      };
      return {sample({2, 3, 4, 5}, {0.5, 1}), sample({67}, {0, 1}), sample({37}, {0.75, 0.75}),
              sample({}, {}), sample({0, 4}, {})};
    },
    .errors = []() -> std::vector<ErrorSample> {
      return {
          {{{{2, 3}}, {{3}}}, SmoothL1Attrs{}, "the prediction has shape [2, 3], the target [3]"},
          {{{{2}}, {{2}}}, SmoothL1Attrs{-1, 1}, "beta is -1. Give a finite number"},
          {{{{2}}, {{2}}}, SmoothL1Attrs{1, 0}, "the slope is 0. Give a finite number"}};
    },
    .ulps = 4,
};

}  // namespace ops

namespace {

// The loss under the name `op`, which the user knows.
Tensor smooth_l1(const char* op, const Tensor& prediction, const Tensor& target,
                 SmoothL1Attrs attrs, Reduction reduction) {
  if (prediction.shape() != target.shape()) {
    fail<ArgumentError>(op, other_shapes(prediction.shape(), target.shape()));
  }
  return reduced_loss(op, call_one(ops::smooth_l1_loss, {&prediction, &target}, attrs), reduction);
}

}  // namespace

Tensor l1_loss(const Tensor& prediction, const Tensor& target, Reduction reduction) {
  return smooth_l1("l1_loss", prediction, target, {0, 1}, reduction);
}

Tensor smooth_l1_loss(const Tensor& prediction, const Tensor& target, double beta,
                      Reduction reduction) {
  return smooth_l1("smooth_l1_loss", prediction, target, {beta, 1}, reduction);
}

Tensor huber_loss(const Tensor& prediction, const Tensor& target, double delta,
                  Reduction reduction) {
  check_arg(std::isfinite(delta) && delta > 0, "huber_loss", "delta is ", delta,
            ". Give a finite number above 0");
  return smooth_l1("huber_loss", prediction, target, {delta, delta}, reduction);
}

}  // namespace mezzo
