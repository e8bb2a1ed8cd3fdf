#include "mezzo/ops/piecewise.h"

#include <cmath>
#include <limits>

#include "mezzo/ops/dispatcher/call.h"
#include "mezzo/ops/dispatcher/sample.h"
#include "mezzo/ops/piecewise_attrs.h"
#include "mezzo/ops/pointwise_grad.h"

namespace mezzo {
namespace {

void check_slope(Infer& infer) {
  const double slope = infer.attrs<LeakyReluAttrs>().negative_slope;
  infer.check(std::isfinite(slope), "negative_slope is ", slope, ". Give a finite number");
}

void check_bounds(Infer& infer) {
  const auto& attrs = infer.attrs<ClampAttrs>();
  infer.check(attrs.min <= attrs.max, "min is ", attrs.min, ", max is ", attrs.max,
              ". Give min <= max, and infinities for no bound");
}

template <class A>
std::vector<Sample> samples(A attrs) {
  return {{{{{2, 3, 4, 5}}}, attrs}, {{{{129}}}, attrs}, {{{{}}}, attrs}, {{{{0, 4}}}, attrs}};
}
template <class A>
std::vector<Sample> grad_samples(A attrs) {
  return {{{{{2, 3, 4, 5}}, {{2, 3, 4, 5}}}, attrs}, {{{{67}}, {{67}}}, attrs}};
}

}  // namespace

namespace ops {

extern const OpDef leaky_relu{
    .name = "leaky_relu",
    .doc = "x where it is positive, negative_slope * x elsewhere",
    .precision = {.reason = "one product, rounded once"},
    .saves = {.inputs = 0b1},
    .infer =
        [](Infer& infer) {
          infer.check_floating(0, "x");
          check_slope(infer);
          infer.output_like(0);
        },
    .backward =
        [](Backward& ctx) {
          const double slope = ctx.attrs<LeakyReluAttrs>().negative_slope;
          ctx.set(0, mezzo::leaky_relu_grad(ctx.grad(), ctx.input(0), slope));
        },
    .samples = [] { return samples(LeakyReluAttrs{0.3}); },
    .errors = []() -> std::vector<ErrorSample> {
      return {{{{{2}, 0, 3, true}}, LeakyReluAttrs{}, "x must be floating-point, it is i64"},
              {{{{2}}},
               LeakyReluAttrs{std::numeric_limits<double>::infinity()},
               "negative_slope is inf. Give a finite number"}};
    },
    .ulps = 2,
};

extern const OpDef leaky_relu_grad{
    .name = "leaky_relu_grad",
    .doc = "grad where x > 0, negative_slope * grad elsewhere",
    .precision = kPartOfBackward,
    .saves = {.inputs = 0b10},
    .infer =
        [](Infer& infer) {
          check_slope(infer);
          infer_pointwise_grad(infer);
        },
    .backward =
        [](Backward& ctx) {
          const double slope = ctx.attrs<LeakyReluAttrs>().negative_slope;
          ctx.set(0, mezzo::leaky_relu_grad(ctx.grad(), ctx.input(1), slope));
        },
    .grad_inputs = 0b01,
    .samples = [] { return grad_samples(LeakyReluAttrs{0.3}); },
    .errors = []() -> std::vector<ErrorSample> {
      return {{{{{3}}, {{2, 3}}},
               LeakyReluAttrs{},
               "the gradient has shape [3], the other input [2, 3]"}};
    },
    .ulps = 2,
};

extern const OpDef clamp{
    .name = "clamp",
    .doc = "x limited to [min, max]; a NaN stays",
    .precision = {.reason = "chooses between values, rounds nothing but the bounds"},
    .saves = {.inputs = 0b1},
    .infer =
        [](Infer& infer) {
          infer.check_floating(0, "x");
          check_bounds(infer);
          infer.output_like(0);
        },
    .backward =
        [](Backward& ctx) {
          const ClampAttrs& attrs = ctx.attrs<ClampAttrs>();
          ctx.set(0, mezzo::clamp_grad(ctx.grad(), ctx.input(0), attrs.min, attrs.max));
        },
    .samples =
        [] {
          std::vector<Sample> all = samples(ClampAttrs{-0.25, 0.5});
          all.push_back({{{{33}}}, ClampAttrs{0.125, std::numeric_limits<double>::infinity()}});
          return all;
        },
    .errors = []() -> std::vector<ErrorSample> {
      return {{{{{2}, 0, 3, true}}, ClampAttrs{}, "x must be floating-point, it is i64"},
              {{{{2}}}, ClampAttrs{2, 1}, "min is 2, max is 1. Give min <= max"}};
    },
    .exact = true,
};

extern const OpDef clamp_grad{
    .name = "clamp_grad",
    .doc = "grad where min < x < max, else 0; a bound that is infinite is none",
    .precision = kPartOfBackward,
    .saves = {.inputs = 0b10},
    .infer =
        [](Infer& infer) {
          check_bounds(infer);
          infer_pointwise_grad(infer);
        },
    .backward =
        [](Backward& ctx) {
          const ClampAttrs& attrs = ctx.attrs<ClampAttrs>();
          ctx.set(0, mezzo::clamp_grad(ctx.grad(), ctx.input(1), attrs.min, attrs.max));
        },
    .grad_inputs = 0b01,
    .samples =
        [] {
          return grad_samples(ClampAttrs{-0.25, 0.5});
        },
    .errors = []() -> std::vector<ErrorSample> {
      return {
          {{{{3}}, {{2, 3}}}, ClampAttrs{}, "the gradient has shape [3], the other input [2, 3]"}};
    },
    .exact = true,
};

extern const OpDef abs{
    .name = "abs",
    .doc = "x without its sign",
    .precision = {.reason = "drops the sign, rounds nothing"},
    .saves = {.inputs = 0b1},
    .infer =
        [](Infer& infer) {
          infer.check_floating(0, "x");
          infer.output_like(0);
        },
    .backward = [](Backward& ctx) { ctx.set(0, mezzo::abs_grad(ctx.grad(), ctx.input(0))); },
    .samples = [] { return samples(NoAttrs{}); },
    .errors = []() -> std::vector<ErrorSample> {
      return {{{{{2}, 0, 3, true}}, {}, "x must be floating-point, it is i64"}};
    },
    .exact = true,
};

extern const OpDef abs_grad{
    .name = "abs_grad",
    .doc = "grad * sign(x)",
    .precision = kPartOfBackward,
    .saves = {.inputs = 0b10},
    .infer = infer_pointwise_grad,
    .backward = [](Backward& ctx) { ctx.set(0, mezzo::abs_grad(ctx.grad(), ctx.input(1))); },
    .grad_inputs = 0b01,
    .samples = [] { return grad_samples(NoAttrs{}); },
    .errors = []() -> std::vector<ErrorSample> {
      return {{{{{3}}, {{2, 3}}}, {}, "the gradient has shape [3], the other input [2, 3]"}};
    },
    .exact = true,
};

}  // namespace ops

Tensor leaky_relu(const Tensor& x, double negative_slope) {
  return call_one(ops::leaky_relu, {&x}, LeakyReluAttrs{negative_slope});
}
Tensor clamp(const Tensor& x, double min, double max) {
  return call_one(ops::clamp, {&x}, ClampAttrs{min, max});
}
Tensor abs(const Tensor& x) { return call_one(ops::abs, {&x}); }
Tensor leaky_relu_grad(const Tensor& grad, const Tensor& x, double negative_slope) {
  return call_one(ops::leaky_relu_grad, {&grad, &x}, LeakyReluAttrs{negative_slope});
}
Tensor clamp_grad(const Tensor& grad, const Tensor& x, double min, double max) {
  return call_one(ops::clamp_grad, {&grad, &x}, ClampAttrs{min, max});
}
Tensor abs_grad(const Tensor& grad, const Tensor& x) {
  return call_one(ops::abs_grad, {&grad, &x});
}

}  // namespace mezzo
