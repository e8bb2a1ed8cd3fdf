#include "mezzo/ops/pointwise.h"

#include <numbers>

#include "mezzo/ops/arithmetic.h"
#include "mezzo/ops/dispatcher/call.h"
#include "mezzo/ops/dispatcher/sample.h"
#include "mezzo/ops/pointwise_attrs.h"
#include "mezzo/ops/pointwise_grad.h"

namespace mezzo {
namespace {

void infer_unary(Infer& infer) {
  infer.check_floating(0, "x");
  infer.output_like(0);
}

template <class A = NoAttrs>
std::vector<Sample> unary_samples(double low, double high, double magnitude, A attrs = {}) {
  return {{{{{2, 3, 4, 5}, low, high}}, attrs, 1, magnitude},
          {{{{67}, low, high}}, attrs, 1, magnitude},
          {{{{}, low, high}}, attrs, 1, magnitude},
          {{{{0, 3}, low, high}}, attrs}};
}

template <class A = NoAttrs>
std::vector<Sample> grad_samples(double low, double high, A attrs = {}) {
  return {{{{{2, 3, 4, 5}}, {{2, 3, 4, 5}, low, high}}, attrs, 1, 1},
          {{{{67}}, {{67}, low, high}}, attrs, 1, 1}};
}

std::vector<ErrorSample> unary_errors() {
  return {{{{{2}, 0, 3, true}}, {}, "x must be floating-point, it is i64"}};
}

// The second derivative of gelu, from differentiable operations.
Tensor gelu_second_derivative(const Tensor& x, GeluForm form) {
  if (form == GeluForm::kExact) {
    // density(x) * (2 - x^2)
    const Tensor square = x * x;
    const double scale = std::numbers::inv_sqrtpi / std::numbers::sqrt2;
    return exp(square * -0.5) * mezzo::affine(square, -scale, 2 * scale);
  }
  // gelu = x * s(v), where s is the logistic function and v is twice the argument of tanh. Then
  // gelu'' = 2 s' v' + x (s' v'' + s'' v'^2), with s' = s (1 - s) and s'' = s' (1 - 2 s).
  const Tensor square = x * x;
  const Tensor s = sigmoid(mezzo::affine(square, 2 * kGeluScale * kGeluCubic, 2 * kGeluScale) * x);
  const Tensor slope = s * mezzo::affine(s, -1, 1);
  const Tensor first = mezzo::affine(square, 6 * kGeluScale * kGeluCubic, 2 * kGeluScale);
  const Tensor second = x * (12 * kGeluScale * kGeluCubic);
  const Tensor bend = slope * mezzo::affine(s, -2, 1) * first * first;
  return slope * first * 2 + x * (slope * second + bend);
}

}  // namespace

namespace ops {

extern const OpDef exp{
    .name = "exp",
    .doc = "e to the power of x",
    .precision = {.lower = PrecisionClass::kFloat32,
                  .reason = "leaves f16's range at x = 11.1, and turns an absolute error of x into "
                            "a relative one: 6 % at x = 16 in bf16"},
    .saves = {.outputs = 0b1},
    .infer = infer_unary,
    .backward = [](Backward& ctx) { ctx.set(0, ctx.grad() * ctx.output()); },
    .samples = [] { return unary_samples(-4, 4, 1); },
    .errors = unary_errors,
    .ulps = 3,
};

extern const OpDef log{
    .name = "log",
    .doc = "the natural logarithm of x",
    .precision =
        {.lower = PrecisionClass::kFloat32,
         .reason =
             "near 1 the result is mostly the rounding of x, and small probabilities are 0 in f16"},
    .saves = {.inputs = 0b1},
    .infer = infer_unary,
    .backward = [](Backward& ctx) { ctx.set(0, ctx.grad() / ctx.input(0)); },
    .samples = [] { return unary_samples(0.25, 4, 1); },
    .errors = unary_errors,
    .ulps = 3,
};

extern const OpDef sqrt{
    .name = "sqrt",
    .doc = "the square root of x",
    .precision = {.narrow_range = PrecisionClass::kFloat32,
                  .reason =
                      "halves the exponent and its error, so bf16 is safe; in f16 the squares "
                      "it is given underflow, and its gradient 1 / (2 y) overflows"},
    .saves = {.outputs = 0b1},
    .infer = infer_unary,
    .backward = [](Backward& ctx) { ctx.set(0, ctx.grad() * 0.5 / ctx.output()); },
    .samples = [] { return unary_samples(0.25, 4, 1); },
    .errors = unary_errors,
};

extern const OpDef pow{
    .name = "pow",
    .doc = "x to a fixed power",
    .precision = {.lower = PrecisionClass::kFloat32,
                  .reason = "multiplies the exponent, which leaves f16's range, and the relative "
                            "error of x"},
    .saves = {.inputs = 0b1},
    .infer = infer_unary,
    .backward =
        [](Backward& ctx) {
          const double exponent = ctx.attrs<PowAttrs>().exponent;
          if (exponent == 0) {
            ctx.set(0, ctx.grad() * 0.0);
          } else {
            ctx.set(0, ctx.grad() * exponent * mezzo::pow(ctx.input(0), exponent - 1));
          }
        },
    .samples =
        [] {
          std::vector<Sample> samples = unary_samples(0.5, 2, 8, PowAttrs{2.7});
          for (const double exponent : {2.0, 3.0, -2.0, 0.5, -0.5, 0.0, 1.0}) {
            samples.push_back({{{{37}, 0.5, 2}}, PowAttrs{exponent}, 1, 8});
          }
          samples.push_back({{{{37}, -2, -0.5}}, PowAttrs{3}, 1, 8});
          return samples;
        },
    .errors = []() -> std::vector<ErrorSample> {
      return {{{{{2}, 0, 3, true}}, PowAttrs{2}, "x must be floating-point, it is i64"}};
    },
    .ulps = 3,
};

extern const OpDef sigmoid{
    .name = "sigmoid",
    .doc = "1 / (1 + exp(-x))",
    .precision = {.reason = "bounded by 0 and 1 with a slope of at most 1/4, so it shrinks the "
                            "error of x; computed in f32 and rounded once"},
    .saves = {.outputs = 0b1},
    .infer = infer_unary,
    .backward = [](Backward& ctx) { ctx.set(0, mezzo::sigmoid_grad(ctx.grad(), ctx.output())); },
    .samples = [] { return unary_samples(-6, 6, 1); },
    .errors = unary_errors,
    .ulps = 3,
};

extern const OpDef sigmoid_grad{
    .name = "sigmoid_grad",
    .doc = "grad * y * (1 - y): the gradient of sigmoid from its output",
    .precision = kPartOfBackward,
    .saves = {.inputs = 0b11},
    .infer = infer_pointwise_grad,
    .backward =
        [](Backward& ctx) {
          const Tensor y = ctx.input(1);
          if (ctx.needs(0)) ctx.set(0, mezzo::sigmoid_grad(ctx.grad(), y));
          if (ctx.needs(1)) ctx.set(1, ctx.grad() * ctx.input(0) * mezzo::affine(y, -2, 1));
        },
    .samples = [] { return grad_samples(0, 1); },
    .ulps = 3,
};

extern const OpDef tanh{
    .name = "tanh",
    .doc = "the hyperbolic tangent of x",
    .precision = {.reason = "bounded by -1 and 1 with a slope of at most 1, so it never enlarges "
                            "the error of x; computed in f32 and rounded once"},
    .saves = {.outputs = 0b1},
    .infer = infer_unary,
    .backward = [](Backward& ctx) { ctx.set(0, mezzo::tanh_grad(ctx.grad(), ctx.output())); },
    .samples = [] { return unary_samples(-3, 3, 1); },
    .errors = unary_errors,
    .ulps = 3,
};

extern const OpDef tanh_grad{
    .name = "tanh_grad",
    .doc = "grad * (1 - y^2): the gradient of tanh from its output",
    .precision = kPartOfBackward,
    .saves = {.inputs = 0b11},
    .infer = infer_pointwise_grad,
    .backward =
        [](Backward& ctx) {
          const Tensor y = ctx.input(1);
          if (ctx.needs(0)) ctx.set(0, mezzo::tanh_grad(ctx.grad(), y));
          if (ctx.needs(1)) ctx.set(1, ctx.grad() * ctx.input(0) * (y * -2.0));
        },
    .samples = [] { return grad_samples(-1, 1); },
    .ulps = 3,
};

extern const OpDef gelu{
    .name = "gelu",
    .doc = "x times the standard normal distribution's CDF at x",
    .precision = {.reason = "follows x on the right and vanishes on the left, with a slope of at "
                            "most 1.13; computed in f32 and rounded once"},
    .saves = {.inputs = 0b1},
    .infer = infer_unary,
    .backward =
        [](Backward& ctx) {
          ctx.set(0, mezzo::gelu_grad(ctx.grad(), ctx.input(0), ctx.attrs<GeluAttrs>().form));
        },
    .samples =
        [] {
          std::vector<Sample> samples = unary_samples(-4, 4, 1, GeluAttrs{GeluForm::kExact});
          for (Sample& sample : unary_samples(-4, 4, 1, GeluAttrs{GeluForm::kTanh})) {
            samples.push_back(std::move(sample));
          }
          return samples;
        },
    .errors = []() -> std::vector<ErrorSample> {
      return {{{{{2}, 0, 3, true}}, GeluAttrs{}, "x must be floating-point, it is i64"}};
    },
    .ulps = 4,
};

extern const OpDef gelu_grad{
    .name = "gelu_grad",
    .doc = "grad * gelu'(x)",
    .precision = kPartOfBackward,
    .saves = {.inputs = 0b11},
    .infer = infer_pointwise_grad,
    .backward =
        [](Backward& ctx) {
          const GeluForm form = ctx.attrs<GeluAttrs>().form;
          const Tensor x = ctx.input(1);
          if (ctx.needs(0)) ctx.set(0, mezzo::gelu_grad(ctx.grad(), x, form));
          if (ctx.needs(1)) {
            ctx.set(1, ctx.grad() * ctx.input(0) * gelu_second_derivative(x, form));
          }
        },
    .samples =
        [] {
          std::vector<Sample> samples = grad_samples(-4, 4, GeluAttrs{GeluForm::kExact});
          for (Sample& sample : grad_samples(-4, 4, GeluAttrs{GeluForm::kTanh})) {
            samples.push_back(std::move(sample));
          }
          return samples;
        },
    .ulps = 6,
};

extern const OpDef silu{
    .name = "silu",
    .doc = "x * sigmoid(x)",
    .precision = {.reason = "follows x on the right and vanishes on the left, with a slope of at "
                            "most 1.1; computed in f32 and rounded once"},
    .saves = {.inputs = 0b1},
    .infer = infer_unary,
    .backward = [](Backward& ctx) { ctx.set(0, mezzo::silu_grad(ctx.grad(), ctx.input(0))); },
    .samples = [] { return unary_samples(-6, 6, 1); },
    .errors = unary_errors,
    .ulps = 4,
};

extern const OpDef silu_grad{
    .name = "silu_grad",
    .doc = "grad * silu'(x), where silu'(x) = s + x * s * (1 - s) with s = sigmoid(x)",
    .precision = kPartOfBackward,
    .saves = {.inputs = 0b11},
    .infer = infer_pointwise_grad,
    .backward =
        [](Backward& ctx) {
          const Tensor x = ctx.input(1);
          if (ctx.needs(0)) ctx.set(0, mezzo::silu_grad(ctx.grad(), x));
          if (!ctx.needs(1)) return;
          // silu'' = s (1 - s) (2 + x (1 - 2 s))
          const Tensor s = mezzo::sigmoid(x);
          const Tensor bend = mezzo::affine(x * mezzo::affine(s, -2, 1), 1, 2);
          ctx.set(1, ctx.grad() * ctx.input(0) * mezzo::sigmoid_grad(bend, s));
        },
    .samples = [] { return grad_samples(-6, 6); },
    .ulps = 6,
};

}  // namespace ops

Tensor exp(const Tensor& x) { return call_one(ops::exp, {&x}); }
Tensor log(const Tensor& x) { return call_one(ops::log, {&x}); }
Tensor sqrt(const Tensor& x) { return call_one(ops::sqrt, {&x}); }
Tensor sigmoid(const Tensor& x) { return call_one(ops::sigmoid, {&x}); }
Tensor tanh(const Tensor& x) { return call_one(ops::tanh, {&x}); }
Tensor pow(const Tensor& x, double exponent) {
  return call_one(ops::pow, {&x}, PowAttrs{exponent});
}
Tensor gelu(const Tensor& x, GeluForm form) { return call_one(ops::gelu, {&x}, GeluAttrs{form}); }
Tensor silu(const Tensor& x) { return call_one(ops::silu, {&x}); }
Tensor sigmoid_grad(const Tensor& grad, const Tensor& y) {
  return call_one(ops::sigmoid_grad, {&grad, &y});
}
Tensor tanh_grad(const Tensor& grad, const Tensor& y) {
  return call_one(ops::tanh_grad, {&grad, &y});
}
Tensor gelu_grad(const Tensor& grad, const Tensor& x, GeluForm form) {
  return call_one(ops::gelu_grad, {&grad, &x}, GeluAttrs{form});
}
Tensor silu_grad(const Tensor& grad, const Tensor& x) {
  return call_one(ops::silu_grad, {&grad, &x});
}

}  // namespace mezzo
