#include "mezzo/ops/reduce.h"

#include <algorithm>

#include "mezzo/ops/arithmetic.h"
#include "mezzo/ops/dispatcher/call.h"
#include "mezzo/ops/dispatcher/sample.h"
#include "mezzo/ops/reduce_attrs.h"
#include "mezzo/ops/shape_ops.h"

namespace mezzo {

Shape reduced_shape(const Shape& shape, const ReduceAttrs& attrs, bool keepdim) {
  Shape result;
  for (std::size_t i = 0; i < shape.rank(); ++i) {
    const bool reduced = std::find(attrs.axes.begin(), attrs.axes.end(),
                                   static_cast<std::int64_t>(i)) != attrs.axes.end();
    if (!reduced) result.push_back(shape[i]);
    if (reduced && keepdim) result.push_back(1);
  }
  return result;
}

ReduceAttrs make_reduce_attrs(const char* op, const Tensor& x, const Shape& axes, bool keepdim,
                              bool f32_result) {
  ReduceAttrs attrs{{}, keepdim, f32_result};
  if (axes.empty()) {
    for (std::size_t i = 0; i < x.rank(); ++i) attrs.axes.push_back(static_cast<std::int64_t>(i));
    return attrs;
  }
  std::array<bool, kMaxRank> named{};
  for (const std::int64_t axis : axes) {
    const std::size_t i = normalize_axis(axis, x.rank(), op);
    check_arg(!named[i], op, "an axis is given twice: ", axes, ". Give it once");
    named[i] = true;
  }
  for (std::size_t i = 0; i < x.rank(); ++i) {
    if (named[i]) attrs.axes.push_back(static_cast<std::int64_t>(i));
  }
  return attrs;
}

namespace {

void infer_reduce(Infer& infer) {
  const auto& attrs = infer.attrs<ReduceAttrs>();
  for (const std::int64_t axis : attrs.axes) {
    normalize_axis(axis, infer.shape(0).rank(), infer.op());
    infer.check(axis >= 0, "an axis is negative: ", attrs.axes, ". Count from the first one");
  }
  const bool widen = attrs.f32_result && is_lower(infer.dtype(0));
  infer.output(reduced_shape(infer.shape(0), attrs, attrs.keepdim),
               widen ? DType::kF32 : infer.dtype(0));
}

// The gradient with the reduced axes back in place, ready to broadcast.
Tensor unreduced(Backward& ctx, const Tensor& reduced) {
  return reshape(reduced, reduced_shape(ctx.input_shape(0), ctx.attrs<ReduceAttrs>(), true));
}

// The number of elements that are reduced to one result.
std::int64_t reduced_count(const Shape& shape, const ReduceAttrs& attrs) {
  std::int64_t count = 1;
  for (const std::int64_t axis : attrs.axes) count *= shape[static_cast<std::size_t>(axis)];
  return count;
}

// True if `reduced` is `shape` with some axes of size 1.
bool is_reduced(const Shape& reduced, const Shape& shape) {
  const auto fits = [](std::int64_t size, std::int64_t full) { return size == 1 || size == full; };
  return reduced.rank() == shape.rank() &&
         std::equal(reduced.begin(), reduced.end(), shape.begin(), fits);
}

std::vector<Sample> reduce_samples() {
  const auto reduce = [](const Shape& shape, const Shape& axes, std::int64_t terms) {
    return Sample{{{shape}}, ReduceAttrs{axes, false, true}, terms};
  };
  return {reduce({2, 3, 4, 5}, {0, 1, 2, 3}, 120),
          reduce({2, 3, 4, 5}, {0, 2, 3}, 40),
          reduce({2, 3, 4, 5}, {1}, 3),
          reduce({33, 7}, {0}, 33),
          reduce({7, 33}, {1}, 33),
          reduce({1000}, {0}, 1000),
          Sample{{{{2, 3, 4}}}, ReduceAttrs{{1}, true, false}, 3}};
}

}  // namespace

namespace ops {

extern const OpDef sum{
    .name = "sum",
    .doc = "the sum over some axes",
    .precision = {.lower = PrecisionClass::kFloat32,
                  .reason = "a long sum leaves f16's range and loses its small terms in 16 bits"},
    .infer = infer_reduce,
    .backward =
        [](Backward& ctx) {
          ctx.set(0, mezzo::expand(unreduced(ctx, ctx.grad()), ctx.input_shape(0)));
        },
    .samples =
        [] {
          std::vector<Sample> samples = reduce_samples();
          samples.push_back({{{{0, 3}}}, ReduceAttrs{{0}, false, true}});
          samples.push_back({{{{}}}, ReduceAttrs{}});
          return samples;
        },
    .exact = true,
};

extern const OpDef mean{
    .name = "mean",
    .doc = "the mean over some axes",
    .precision =
        {.lower = PrecisionClass::kFloat32,
         .reason = "losses and statistics are means, and 16 bits would hide small changes of them"},
    .infer =
        [](Infer& infer) {
          infer.check_floating(0, "x");
          infer_reduce(infer);
          infer.check(reduced_count(infer.shape(0), infer.attrs<ReduceAttrs>()) > 0,
                      "there is nothing to average: the shape is ", infer.shape(0),
                      ". Leave empty axes out");
        },
    .backward =
        [](Backward& ctx) {
          const Shape& shape = ctx.input_shape(0);
          const auto count = static_cast<double>(reduced_count(shape, ctx.attrs<ReduceAttrs>()));
          ctx.set(0, mezzo::expand(unreduced(ctx, mezzo::affine(ctx.grad(), 1 / count, 0)), shape));
        },
    .samples = reduce_samples,
    .errors = []() -> std::vector<ErrorSample> {
      return {{{{{0, 3}}}, ReduceAttrs{{0}}, "there is nothing to average: the shape is [0, 3]"}};
    },
};

extern const OpDef max{
    .name = "max",
    .doc = "the largest element over some axes; NaN if there is one",
    .precision = {.reason = "chooses between values, rounds nothing"},
    .saves = {.inputs = 0b1, .outputs = 0b1},
    .infer =
        [](Infer& infer) {
          infer_reduce(infer);
          infer.check(reduced_count(infer.shape(0), infer.attrs<ReduceAttrs>()) > 0,
                      "there is nothing to compare: the shape is ", infer.shape(0),
                      ". Leave empty axes out");
        },
    .backward =
        [](Backward& ctx) {
          const Tensor grad = unreduced(ctx, ctx.grad()).astype(ctx.input_dtype(0));
          const Tensor y = unreduced(ctx, ctx.output()).astype(ctx.input_dtype(0)).detach();
          ctx.set(0, mezzo::max_grad(grad, ctx.input(0).detach(), y));
        },
    .samples = reduce_samples,
    .errors = []() -> std::vector<ErrorSample> {
      return {{{{{2, 0}}}, ReduceAttrs{{1}}, "there is nothing to compare: the shape is [2, 0]"}};
    },
    .exact = true,
};

// The operation is linear in grad, and constant in x and y wherever max is differentiable.
extern const OpDef max_grad{
    .name = "max_grad",
    .doc = "grad shared equally by the elements of x that equal their maximum y, 0 elsewhere",
    .precision = {.reason = "part of a backward pass, which runs in its forward's dtype"},
    .saves = {.inputs = 0b110},
    .infer =
        [](Infer& infer) {
          infer.check_same_dtype(0, 1);
          infer.check_same_dtype(1, 2);
          infer.check(infer.shape(0) == infer.shape(2), "grad has shape ", infer.shape(0),
                      ", y has shape ", infer.shape(2), ". Give both the same shape");
          infer.check(is_reduced(infer.shape(2), infer.shape(1)), "x has shape ", infer.shape(1),
                      ", its maximum ", infer.shape(2), ". Keep the reduced axes with size 1");
          infer.output_like(1);
        },
    .backward =
        [](Backward& ctx) {
          const Tensor x = ctx.input(1);
          const Tensor y = ctx.input(2);
          const Tensor share =
              mezzo::max_grad(ones(y.shape(), y.dtype(), Format::kContiguous, y.device()), x, y);
          ctx.set(0, sum_to(ctx.grad() * share, y.shape(), ctx.grad_dtype(0)));
        },
    .grad_inputs = 0b001,
    .samples = []() -> std::vector<Sample> {
      return {{{{{2, 1, 4, 1}}, {{2, 3, 4, 5}}, {{2, 1, 4, 1}}}},
              {{{{1}}, {{7}, 0, 1}, {{1}, 0, 0}}}};
    },
};

}  // namespace ops

namespace {

// The terms of the sum: i64 instead of other integers, which could overflow, and f64 for an f64
// result.
Tensor terms_of_sum(const Tensor& x, std::optional<DType> dtype) {
  if (!is_floating(x.dtype())) return x.astype(DType::kI64);
  return dtype == DType::kF64 ? x.astype(DType::kF64) : x;
}

}  // namespace

Tensor sum(const Tensor& x, const Shape& axes, bool keepdim, std::optional<DType> dtype) {
  const Tensor terms = terms_of_sum(x, dtype);
  // If the result has another dtype, rounding the sum to the 16 bits of x first might overflow.
  const bool f32_result = dtype == DType::kF32 || dtype.value_or(x.dtype()) != x.dtype();
  const Tensor result =
      call_one(ops::sum, {&terms}, make_reduce_attrs("sum", x, axes, keepdim, f32_result));
  return dtype.has_value() ? result.astype(*dtype) : result;
}

Tensor mean(const Tensor& x, const Shape& axes, bool keepdim) {
  return call_one(ops::mean, {&x}, make_reduce_attrs("mean", x, axes, keepdim, false));
}

Tensor max(const Tensor& x, const Shape& axes, bool keepdim) {
  return call_one(ops::max, {&x}, make_reduce_attrs("max", x, axes, keepdim, false));
}

Tensor max_grad(const Tensor& grad, const Tensor& x, const Tensor& y) {
  return call_one(ops::max_grad, {&grad, &x, &y});
}

}  // namespace mezzo
