#include "mezzo/ops/norm.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "mezzo/ops/arithmetic.h"
#include "mezzo/ops/cast.h"
#include "mezzo/ops/compare.h"
#include "mezzo/ops/dispatcher/call.h"
#include "mezzo/ops/dispatcher/sample.h"
#include "mezzo/ops/min.h"
#include "mezzo/ops/piecewise.h"
#include "mezzo/ops/pointwise.h"
#include "mezzo/ops/reduce.h"
#include "mezzo/ops/reduce_attrs.h"
#include "mezzo/ops/select.h"
#include "mezzo/ops/shape_ops.h"

namespace mezzo {
namespace {

void infer_norm(Infer& infer) {
  const auto& attrs = infer.attrs<ReduceAttrs>();
  infer.check_floating(0, "x");
  for (const std::int64_t axis : attrs.axes) {
    infer.check(axis >= 0 && axis < static_cast<std::int64_t>(infer.shape(0).rank()),
                "axis out of range: ", axis, " for a tensor of rank ", infer.shape(0).rank(),
                ". Choose one that it has");
  }
  infer.output(reduced_shape(infer.shape(0), attrs, attrs.keepdim), infer.dtype(0));
}

void norm_backward(Backward& ctx) {
  const Shape kept = reduced_shape(ctx.input_shape(0), ctx.attrs<ReduceAttrs>(), true);
  const Tensor y = reshape(ctx.output(), kept);
  // x / inf is 0 where x is.
  const Tensor divisor = masked_fill(y, eq(y, 0), std::numeric_limits<double>::infinity());
  ctx.set(0, reshape(ctx.grad(), kept) * (ctx.input(0) / divisor));
}

Sample norm_sample(const Shape& x, const Shape& axes, std::int64_t terms, bool keepdim = false) {
  return {{{x, 0.5, 1.5}}, ReduceAttrs{axes, keepdim}, terms, 2};
}

}  // namespace

namespace ops {

extern const OpDef norm{
    .name = "norm",
    .doc = "the root of the sum of squares over some axes",
    .precision = {.lower = PrecisionClass::kFloat32,
                  .reason =
                      "squares of 256 leave f16's range and those of 0.0002 vanish in it; the "
                      "norm of a long vector leaves it, too"},
    .saves = {.inputs = 0b1, .outputs = 0b1},
    .infer = infer_norm,
    .backward = norm_backward,
    .samples = []() -> std::vector<Sample> {
      return {norm_sample({2, 3, 4, 5}, {0, 1, 2, 3}, 120),
              norm_sample({2, 3, 4, 5}, {0, 2, 3}, 40),
              norm_sample({2, 3, 4, 5}, {1}, 3, true),
              norm_sample({33, 7}, {0}, 33),
              norm_sample({7, 33}, {1}, 33, true),
              norm_sample({3, 5, 70}, {0, 1}, 15),
              norm_sample({1000}, {0}, 1000),
              norm_sample({0, 3}, {0}, 1),
              norm_sample({}, {}, 1)};
    },
    .errors = []() -> std::vector<ErrorSample> {
      return {{{{{2}, 0, 3, true}}, ReduceAttrs{{0}}, "x must be floating-point, it is i64"},
              {{{{2}}}, ReduceAttrs{{1}}, "axis out of range: 1 for a tensor of rank 1"}};
    },
    .ulps = 2,
};

}  // namespace ops

namespace {

Tensor root_of_squares(const Tensor& x, const Shape& axes, bool keepdim) {
  return call_one(ops::norm, {&x}, make_reduce_attrs("norm", x, axes, keepdim, false));
}

// Norms other than the 2-norm, of f32 or f64 elements.
Tensor other_norm(const Tensor& x, double p, const Shape& axes, bool keepdim) {
  const Tensor size = abs(x);
  if (p == std::numeric_limits<double>::infinity()) return max(size, axes, keepdim);
  if (p == -std::numeric_limits<double>::infinity()) return min(size, axes, keepdim);
  if (p == 0) return sum(ne(x, 0).astype(x.dtype()), axes, keepdim);
  if (p == 1) return sum(size, axes, keepdim);
  return pow(sum(pow(size, p), axes, keepdim), 1 / p);
}

void check_values(const char* op, const Tensor& x) {
  check_arg(is_floating(x.dtype()), op, "x must be floating-point, it is ", x.dtype(),
            ". Use astype(DType::kF32)");
}

}  // namespace

Tensor norm(const Tensor& x, double p, const Shape& axes, bool keepdim) {
  check_values("norm", x);
  check_arg(!std::isnan(p), "norm", "p is NaN. Give a number or an infinity");
  if (p == 2) return root_of_squares(x, axes, keepdim);
  const WithoutPrecisionHook outside;  // at O2 a region would cast the powers to 16 bits
  return cast(other_norm(widen(x), p, axes, keepdim), x.dtype());
}

Tensor normalize(const Tensor& x, double p, std::int64_t axis, double eps) {
  const WithoutPrecisionHook outside;  // a region's clamp in f16 would make eps 0
  check_values("normalize", x);
  check_arg(eps >= 0, "normalize", "eps must not be negative: ", eps, ". Use 1e-12");
  const Tensor values = widen(x);
  const Tensor size = norm(values, p, {axis}, true);
  const Tensor divisor = clamp(size, eps, std::numeric_limits<double>::infinity());
  return cast(values / divisor, x.dtype());
}

namespace {

// The distances from the mean, and by what their squares are divided.
struct Distances {
  Tensor values;
  double divisor;
};

Distances distances_of(const char* op, const Tensor& x, const Shape& axes,
                       const VarianceOptions& options) {
  check_values(op, x);
  const Tensor values = widen(x);
  const Tensor means = mean(values, axes, true);
  const double count = static_cast<double>(x.numel()) / static_cast<double>(means.numel());
  return {values - means, std::max(0.0, count - options.correction)};
}

}  // namespace

Tensor var(const Tensor& x, const Shape& axes, const VarianceOptions& options) {
  const WithoutPrecisionHook outside;  // squares of 256 leave f16's range
  const Distances from_mean = distances_of("var", x, axes, options);
  const Tensor squares = from_mean.values * from_mean.values;
  return cast(sum(squares, axes, options.keepdim) / from_mean.divisor, x.dtype());
}

Tensor std(const Tensor& x, const Shape& axes, const VarianceOptions& options) {
  const WithoutPrecisionHook outside;  // bf16 distances would have 8 bits
  const Distances from_mean = distances_of("std", x, axes, options);
  const Tensor root = norm(from_mean.values, 2, axes, options.keepdim);
  return cast(root / std::sqrt(from_mean.divisor), x.dtype());
}

}  // namespace mezzo
