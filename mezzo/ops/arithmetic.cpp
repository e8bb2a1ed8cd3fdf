#include "mezzo/ops/arithmetic.h"

#include "mezzo/ops/affine_attrs.h"
#include "mezzo/ops/broadcasting.h"
#include "mezzo/ops/cast.h"
#include "mezzo/ops/dispatcher/call.h"
#include "mezzo/ops/dispatcher/sample.h"
#include "mezzo/ops/reduce.h"
#include "mezzo/ops/select.h"
#include "mezzo/ops/shape_ops.h"

namespace mezzo {
namespace {

constexpr PrecisionRule kWidestRule{
    .lower = PrecisionClass::kWidest,
    .reason = "operands must agree; rounding the wider one would lose what it was kept wide for"};

void infer_binary(Infer& infer) {
  infer.check_same_dtype(0, 1);
  infer.check(infer.dtype(0) != DType::kBool, "bool has no arithmetic. Use astype(DType::kF32)");
  output_broadcast(infer, infer.dtype(0), {0, 1});
}

std::vector<Sample> binary_samples(double low) {
  const auto pair = [low](const Shape& a, const Shape& b) {
    return Sample{{{a}, {b, low, 2}}, {}, 1, 2};
  };
  return {pair({2, 3, 4, 5}, {2, 3, 4, 5}),
          pair({2, 3, 4, 5}, {1, 3, 1, 1}),
          pair({33}, {33}),
          pair({3, 1}, {1, 5}),
          pair({7, 13}, {13}),
          pair({}, {4}),
          pair({0, 3}, {3}),
          pair({2, 1, 4}, {2, 3, 1}),
          pair({}, {})};
}

std::vector<ErrorSample> binary_errors() {
  return {{{{{2, 3}}, {{2, 4}}}, {}, "shapes cannot be broadcast together: [2, 3] and [2, 4]"}};
}

void add_backward(Backward& ctx) {
  for (const std::size_t i : {0UL, 1UL}) {
    if (ctx.needs(i)) set_reduced(ctx, i, ctx.grad());
  }
}

// Checks that x is floating. `called` is the name that the user knows: `affine` and `div_number`
// are called by others.
const Tensor& floating(const Tensor& x, const char* called) {
  check_arg(!x.defined() || is_floating(x.dtype()), called, "x must be floating-point, it is ",
            x.dtype(), ". Use astype(DType::kF32)");
  return x;
}

// The gradient flows to the operand that was chosen.
void set_grads_of_chosen(Backward& ctx, bool larger) {
  for (const std::size_t i : {0UL, 1UL}) {
    if (!ctx.needs(i)) continue;
    const Tensor own = ctx.input(i);
    const Tensor other = ctx.input(1 - i);
    const Tensor& a = larger ? own : other;
    set_reduced(ctx, i, maximum_grad(ctx.grad(), a, larger ? other : own));
  }
}

}  // namespace

namespace ops {

extern const OpDef add{
    .name = "add",
    .doc = "a + b with broadcasting",
    .precision = kWidestRule,
    .promote = 0b11,
    .infer = infer_binary,
    .backward = add_backward,
    .samples = [] { return binary_samples(-2); },
    .errors = binary_errors,
    .exact = true,
};

extern const OpDef add_residual{
    .name = "add_residual",
    .doc = "x + branch for a residual stream, with broadcasting",
    .precision = {.lower = PrecisionClass::kKeep,
                  .reason = "the stream is a sum over all layers; rounded to 16 bits after each of "
                            "them, it loses branches that are small beside it"},
    .promote = 0b11,
    .infer =
        [](Infer& infer) {
          infer.check_floating(0, "x");
          infer_binary(infer);
        },
    .backward = add_backward,
    .samples = [] { return binary_samples(-2); },
    .errors = binary_errors,
    .exact = true,
};

extern const OpDef sub{
    .name = "sub",
    .doc = "a - b with broadcasting",
    .precision = kWidestRule,
    .promote = 0b11,
    .infer = infer_binary,
    .backward =
        [](Backward& ctx) {
          if (ctx.needs(0)) set_reduced(ctx, 0, ctx.grad());
          if (ctx.needs(1)) set_reduced(ctx, 1, -ctx.grad());
        },
    .samples = [] { return binary_samples(-2); },
    .errors = binary_errors,
    .exact = true,
};

extern const OpDef mul{
    .name = "mul",
    .doc = "a * b with broadcasting",
    .precision = kWidestRule,
    .saves = {.inputs = 0b11},
    .promote = 0b11,
    .infer = infer_binary,
    .backward =
        [](Backward& ctx) {
          if (ctx.needs(0)) set_reduced(ctx, 0, ctx.grad() * ctx.input(1));
          if (ctx.needs(1)) set_reduced(ctx, 1, ctx.grad() * ctx.input(0));
        },
    .samples = [] { return binary_samples(-2); },
    .errors = binary_errors,
    .exact = true,
};

extern const OpDef div{
    .name = "div",
    .doc = "a / b with broadcasting",
    .precision = kWidestRule,
    .saves = {.inputs = 0b11},
    .promote = 0b11,
    .infer =
        [](Infer& infer) {
          infer.check_floating(0, "a");
          infer_binary(infer);
        },
    .backward =
        [](Backward& ctx) {
          const Tensor b = ctx.input(1);
          const Tensor quotient = ctx.grad() / b;
          if (ctx.needs(0)) set_reduced(ctx, 0, quotient);
          if (ctx.needs(1)) set_reduced(ctx, 1, -(quotient * (ctx.input(0) / b)));
        },
    .samples = [] { return binary_samples(0.5); },
    .errors = binary_errors,
    .ulps = 2,
};

extern const OpDef maximum{
    .name = "maximum",
    .doc = "the larger of a and b with broadcasting; a NaN stays",
    .precision = kWidestRule,
    .saves = {.inputs = 0b11},
    .promote = 0b11,
    .infer = infer_binary,
    .backward = [](Backward& ctx) { set_grads_of_chosen(ctx, /*larger=*/true); },
    .samples = [] { return binary_samples(-2); },
    .errors = binary_errors,
    .exact = true,
};

extern const OpDef minimum{
    .name = "minimum",
    .doc = "the smaller of a and b with broadcasting; a NaN stays",
    .precision = kWidestRule,
    .saves = {.inputs = 0b11},
    .promote = 0b11,
    .infer = infer_binary,
    .backward = [](Backward& ctx) { set_grads_of_chosen(ctx, /*larger=*/false); },
    .samples = [] { return binary_samples(-2); },
    .errors = binary_errors,
    .exact = true,
};

extern const OpDef affine{
    .name = "affine",
    .doc = "scale * x + shift with two scalars",
    .precision = {.reason = "one rounding of the result, whatever the dtype"},
    .infer =
        [](Infer& infer) {
          infer.check_floating(0, "x");
          infer.output_like(0);
        },
    .backward =
        [](Backward& ctx) {
          ctx.set(0, mezzo::affine(ctx.grad(), ctx.attrs<AffineAttrs>().scale, 0));
        },
    .samples = []() -> std::vector<Sample> {
      return {{{{{2, 3, 4, 5}}}, AffineAttrs{-1, 0.5}, 2, 1},
              {{{{37}}}, AffineAttrs{0.125, 0}},
              {{{{0}}}, AffineAttrs{}}};
    },
    .ulps = 2,
};

extern const OpDef div_number{
    .name = "div_number",
    .doc = "x / divisor with a scalar",
    .precision = {.reason = "one rounding of the result, whatever the dtype"},
    .infer =
        [](Infer& infer) {
          infer.check_floating(0, "x");
          infer.output_like(0);
        },
    .backward =
        [](Backward& ctx) {
          ctx.set(0, mezzo::div(ctx.grad(), ctx.attrs<DivNumberAttrs>().divisor));
        },
    .samples = []() -> std::vector<Sample> {
      return {{{{{2, 3, 4, 5}}}, DivNumberAttrs{3}, 2, 1},
              {{{{37}}}, DivNumberAttrs{-0.7}},
              {{{{0}}}, DivNumberAttrs{}}};
    },
    .ulps = 2,
};

}  // namespace ops

Tensor add(const Tensor& a, const Tensor& b) { return call_one(ops::add, {&a, &b}); }
Tensor add_residual(const Tensor& x, const Tensor& branch) {
  return call_one(ops::add_residual, {&x, &branch});
}
Tensor sub(const Tensor& a, const Tensor& b) { return call_one(ops::sub, {&a, &b}); }
Tensor mul(const Tensor& a, const Tensor& b) { return call_one(ops::mul, {&a, &b}); }
Tensor div(const Tensor& a, const Tensor& b) { return call_one(ops::div, {&a, &b}); }
Tensor maximum(const Tensor& a, const Tensor& b) { return call_one(ops::maximum, {&a, &b}); }
Tensor minimum(const Tensor& a, const Tensor& b) { return call_one(ops::minimum, {&a, &b}); }

Tensor div(const Tensor& x, double number) {
  return call_one(ops::div_number, {&floating(x, "div")}, DivNumberAttrs{number});
}

Tensor affine(const Tensor& x, double scale, double shift) {
  return call_one(ops::affine, {&x}, AffineAttrs{scale, shift});
}

Tensor operator+(const Tensor& x, double number) {
  return affine(floating(x, "operator+"), 1, number);
}
Tensor operator-(const Tensor& x, double number) {
  return affine(floating(x, "operator-"), 1, -number);
}
Tensor operator*(const Tensor& x, double number) {
  return affine(floating(x, "operator*"), number, 0);
}
Tensor operator/(const Tensor& x, double number) { return div(floating(x, "operator/"), number); }
Tensor operator+(double number, const Tensor& x) { return x + number; }
Tensor operator-(double number, const Tensor& x) {
  return affine(floating(x, "operator-"), -1, number);
}
Tensor operator*(double number, const Tensor& x) { return x * number; }
Tensor operator-(const Tensor& x) { return affine(floating(x, "operator-"), -1, 0); }

void add_into(const Tensor& a, const Tensor& b) { call_into(ops::add, {&a, &b}, {}, a); }

Tensor sum_to(const Tensor& x, const Shape& shape, DType dtype) {
  if (x.shape() == shape) return x;
  Shape axes;
  const std::size_t extra = x.rank() - shape.rank();
  for (std::size_t i = 0; i < x.rank(); ++i) {
    if (i < extra || (shape[i - extra] == 1 && x.shape()[i] != 1)) {
      axes.push_back(static_cast<std::int64_t>(i));
    }
  }
  if (axes.empty()) return reshape(x, shape);
  return reshape(sum(x, axes, false, dtype), shape);
}

}  // namespace mezzo
