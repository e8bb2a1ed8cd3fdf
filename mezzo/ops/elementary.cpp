#include "mezzo/ops/elementary.h"

#include <cmath>
#include <numbers>

#include "mezzo/ops/arithmetic.h"
#include "mezzo/ops/dispatcher/call.h"
#include "mezzo/ops/dispatcher/sample.h"
#include "mezzo/ops/elementary_attrs.h"
#include "mezzo/ops/pointwise.h"

namespace mezzo {
namespace {

void infer_elementary(Infer& infer) {
  infer.check_floating(0, "x");
  infer.output_like(0);
}

template <class A = NoAttrs>
std::vector<Sample> elementary_samples(double low, double high, double magnitude = 1,
                                       A attrs = {}) {
  return {{{{{2, 3, 4, 5}, low, high}}, attrs, 1, magnitude},
          {{{{67}, low, high}}, attrs, 1, magnitude},
          {{{{}, low, high}}, attrs, 1, magnitude},
          {{{{0, 3}, low, high}}, attrs}};
}

std::vector<ErrorSample> elementary_errors() {
  return {{{{{2}, 0, 3, true}}, {}, "x must be floating-point, it is i64"}};
}

constexpr const char* kAngles =
    "what it is given are angles, mostly of positions: in bf16 those beyond 256 are off by a "
    "radian "
    "or more, and f16 ends at 65504";

}  // namespace

namespace ops {

extern const OpDef log1p{
    .name = "log1p",
    .doc = "log(1 + x)",
    .precision = {.lower = PrecisionClass::kFloat32,
                  .reason = "near -1 the result is mostly the rounding of x: no bf16 number lies "
                            "between -1 and -0.996"},
    .saves = {.inputs = 0b1},
    .infer = infer_elementary,
    .backward = [](Backward& ctx) { ctx.set(0, ctx.grad() / (ctx.input(0) + 1.0)); },
    .samples = [] { return elementary_samples(-0.75, 3); },
    .errors = elementary_errors,
    .ulps = 5,
};

extern const OpDef rsqrt{
    .name = "rsqrt",
    .doc = "1 / sqrt(x)",
    .precision = {.narrow_range = PrecisionClass::kFloat32,
                  .reason =
                      "halves the exponent and its error, so bf16 is safe; in f16 the squares "
                      "it is given underflow to 0, whose result is infinite"},
    .saves = {.outputs = 0b1},
    .infer = infer_elementary,
    .backward =
        [](Backward& ctx) {
          const Tensor y = ctx.output();
          ctx.set(0, ctx.grad() * -0.5 * (y * y * y));
        },
    .samples = [] { return elementary_samples(0.5, 4); },
    .errors = elementary_errors,
    .ulps = 3,
};

extern const OpDef erf{
    .name = "erf",
    .doc = "the error function of x",
    .precision = {.reason = "bounded by -1 and 1 with a slope of at most 1.13; computed in f32 and "
                            "rounded once"},
    .saves = {.inputs = 0b1},
    .infer = infer_elementary,
    .backward =
        [](Backward& ctx) {
          const Tensor x = ctx.input(0);
          const Tensor slope = mezzo::exp(-(x * x)) * (2 * std::numbers::inv_sqrtpi);
          ctx.set(0, ctx.grad() * slope);
        },
    .samples = [] { return elementary_samples(-3, 3); },
    .errors = elementary_errors,
    .ulps = 5,
};

extern const OpDef sin{
    .name = "sin",
    .doc = "the sine of x in radians",
    .precision = {.lower = PrecisionClass::kFloat32, .reason = kAngles},
    .saves = {.inputs = 0b1},
    .infer = infer_elementary,
    .backward = [](Backward& ctx) { ctx.set(0, ctx.grad() * mezzo::cos(ctx.input(0))); },
    .samples = [] { return elementary_samples(-7, 7); },
    .errors = elementary_errors,
    .ulps = 3,
};

extern const OpDef cos{
    .name = "cos",
    .doc = "the cosine of x in radians",
    .precision = {.lower = PrecisionClass::kFloat32, .reason = kAngles},
    .saves = {.inputs = 0b1},
    .infer = infer_elementary,
    .backward = [](Backward& ctx) { ctx.set(0, -(ctx.grad() * mezzo::sin(ctx.input(0)))); },
    .samples = [] { return elementary_samples(-7, 7); },
    .errors = elementary_errors,
    .ulps = 3,
};

extern const OpDef softplus{
    .name = "softplus",
    .doc = "log(1 + exp(beta * x)) / beta; with beta = -1, the logarithm of sigmoid(x)",
    .precision = {.reason = "its slope is at most 1, so it never enlarges the error of x; computed "
                            "in f32 and rounded once, where sigmoid and then log underflow in f16"},
    .saves = {.inputs = 0b1},
    .infer =
        [](Infer& infer) {
          const double beta = infer.attrs<SoftplusAttrs>().beta;
          const auto narrow = static_cast<float>(beta);  // kernels compute in f32
          infer.check(std::isfinite(narrow) && narrow != 0, "beta is ", beta,
                      ". Give a number that is finite and not 0 in f32");
          infer_elementary(infer);
        },
    .backward =
        [](Backward& ctx) {
          const double beta = ctx.attrs<SoftplusAttrs>().beta;
          const Tensor x = ctx.input(0);
          ctx.set(0, ctx.grad() * mezzo::sigmoid(beta == 1 ? x : x * beta));
        },
    .samples =
        [] {
          std::vector<Sample> all = elementary_samples(-6, 6, 1, SoftplusAttrs{1});
          for (const double beta : {-1.0, 2.0, 0.5}) {
            all.push_back({{{{37}, -6, 6}}, SoftplusAttrs{beta}, 1, 1});
          }
          return all;
        },
    .errors = []() -> std::vector<ErrorSample> {
      return {
          {{{{2}, 0, 3, true}}, SoftplusAttrs{}, "x must be floating-point, it is i64"},
          {{{{2}}}, SoftplusAttrs{0}, "beta is 0. Give a number that is finite and not 0 in f32"}};
    },
    .ulps = 6,
};

}  // namespace ops

Tensor log1p(const Tensor& x) { return call_one(ops::log1p, {&x}); }
Tensor rsqrt(const Tensor& x) { return call_one(ops::rsqrt, {&x}); }
Tensor erf(const Tensor& x) { return call_one(ops::erf, {&x}); }
Tensor sin(const Tensor& x) { return call_one(ops::sin, {&x}); }
Tensor cos(const Tensor& x) { return call_one(ops::cos, {&x}); }
Tensor softplus(const Tensor& x, double beta) {
  return call_one(ops::softplus, {&x}, SoftplusAttrs{beta});
}
Tensor logsigmoid(const Tensor& x) { return softplus(x, -1); }

}  // namespace mezzo
