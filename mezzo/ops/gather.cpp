#include "mezzo/ops/gather.h"

#include "mezzo/ops/axis_attrs.h"
#include "mezzo/ops/cast.h"
#include "mezzo/ops/dispatcher/call.h"
#include "mezzo/ops/dispatcher/sample.h"
#include "mezzo/ops/indexing.h"
#include "mezzo/ops/shape_ops.h"

namespace mezzo {
namespace {

// Checks that `index` addresses the axis of x.
void check_index(const Infer& infer) {
  const Shape& x = infer.shape(0);
  const Shape& index = infer.shape(1);
  const std::int64_t axis = infer.attrs<AxisAttrs>().axis;
  infer.check(infer.dtype(1) == DType::kI64, "the index must be i64, it is ", infer.dtype(1),
              ". Use astype(DType::kI64)");
  infer.check(axis >= 0 && axis < static_cast<std::int64_t>(x.rank()), "axis out of range: ", axis,
              " for a tensor of rank ", x.rank(), ". Choose one that it has");
  bool fits = index.rank() == x.rank();
  for (std::size_t i = 0; fits && i < x.rank(); ++i) {
    fits = static_cast<std::int64_t>(i) == axis || index[i] <= x[i];
  }
  infer.check(fits, "an index of shape ", index, " does not fit x of shape ", x,
              ". Give it the rank of x, and sizes no larger but along axis ", axis);
  infer.check(index.numel() == 0 || x[static_cast<std::size_t>(axis)] > 0, "axis ", axis,
              " of x has no elements that an index could name: ", x, ". Give it at least one");
}

void infer_gather(Infer& infer) {
  check_index(infer);
  infer.output(infer.shape(1), infer.dtype(0));
}

void infer_scatter_add(Infer& infer) {
  check_index(infer);
  infer.check_same_dtype(0, 2);
  infer.check(infer.dtype(0) != DType::kBool, "bools cannot be added",
              ". Use astype(DType::kI64) before");
  infer.check(infer.shape(1) == infer.shape(2), "the index has shape ", infer.shape(1),
              ", the source ", infer.shape(2), ". Give both the same shape");
  infer.output(infer.shape(0), infer.dtype(0));
}

Tensor gathered(const Tensor& x, const Tensor& index, const AxisAttrs& attrs);
Tensor scattered(const Tensor& x, const Tensor& index, const Tensor& source,
                 const AxisAttrs& attrs);

void gather_backward(Backward& ctx) {
  const Tensor& grad = ctx.grad();
  const Tensor start =
      zeros(ctx.input_shape(0), ctx.grad_dtype(0), Format::kContiguous, grad.device());
  ctx.set(0, scattered(start, ctx.input(1), grad, ctx.attrs<AxisAttrs>()));
}

void scatter_add_backward(Backward& ctx) {
  if (ctx.needs(0)) ctx.set(0, ctx.grad());
  if (ctx.needs(2)) ctx.set(2, gathered(ctx.grad(), ctx.input(1), ctx.attrs<AxisAttrs>()));
}

Sample gather_sample(const Shape& x, const Shape& index, std::int64_t axis) {
  const std::int64_t size = x[static_cast<std::size_t>(axis)];
  const std::int64_t terms = std::max<std::int64_t>(1, index[static_cast<std::size_t>(axis)]);
  return {{{x}, {index, 0, static_cast<double>(size), true}}, AxisAttrs{axis}, terms};
}

Sample scatter_sample(const Shape& x, const Shape& index, std::int64_t axis) {
  Sample sample = gather_sample(x, index, axis);
  sample.inputs.push_back({index});
  ++sample.terms;
  return sample;
}

}  // namespace

namespace ops {

extern const OpDef gather{
    .name = "gather",
    .doc = "the elements of x that an index of the same rank names along one axis",
    .precision = {.cast_mask = 0,
                  .reason = "copies elements; a cast of all of x for a few of them would cost more "
                            "than it saves"},
    .saves = {.inputs = 0b10},
    .infer = infer_gather,
    .backward = gather_backward,
    .grad_inputs = 0b01,
    .samples = []() -> std::vector<Sample> {
      return {gather_sample({5, 7}, {5, 1}, 1),
              gather_sample({5, 7}, {9, 4}, 0),
              gather_sample({2, 3, 4, 5}, {2, 6, 4, 5}, 1),
              gather_sample({9}, {40}, 0),
              gather_sample({3, 4, 37}, {3, 7, 35}, 1),
              gather_sample({3, 4}, {0, 4}, 0)};
    },
    .errors = []() -> std::vector<ErrorSample> {
      return {{{{{3, 4}}, {{2, 4}, 3, 4, true}}, AxisAttrs{0}, "index 0 is 3, out of range for 3"},
              {{{{3, 4}}, {{2, 4}}}, AxisAttrs{0}, "the index must be i64, it is f32"},
              {{{{3, 4}}, {{2}, 0, 2, true}},
               AxisAttrs{0},
               "an index of shape [2] does not fit x of shape [3, 4]"},
              {{{{3, 4}}, {{2, 5}, 0, 2, true}},
               AxisAttrs{0},
               "an index of shape [2, 5] does not fit x of shape [3, 4]"},
              {{{{0, 4}}, {{2, 4}, 0, 2, true}},
               AxisAttrs{0},
               "axis 0 of x has no elements that an index could name: [0, 4]"}};
    },
    .exact = true,
};

extern const OpDef scatter_add{
    .name = "scatter_add",
    .doc = "x plus each element of a source, at the place that an index names along one axis",
    .precision = {.lower = PrecisionClass::kWidest,
                  .cast_mask = 0b101,
                  .reason = "both sides must agree; sums are f32 inside and rounded once, because "
                            "16 bits would lose the last of many terms"},
    .saves = {.inputs = 0b010},
    .promote = 0b101,
    .infer = infer_scatter_add,
    .backward = scatter_add_backward,
    .grad_inputs = 0b101,
    .samples = []() -> std::vector<Sample> {
      return {scatter_sample({5, 7}, {5, 1}, 1),
              scatter_sample({5, 7}, {9, 4}, 0),
              scatter_sample({2, 3, 4, 5}, {2, 6, 4, 5}, 1),
              scatter_sample({9}, {40}, 0),
              scatter_sample({3, 4, 37}, {3, 7, 35}, 1),
              scatter_sample({3, 4}, {0, 4}, 0)};
    },
    .errors = []() -> std::vector<ErrorSample> {
      return {{{{{3, 4}}, {{2, 4}, 3, 4, true}, {{2, 4}}},
               AxisAttrs{0},
               "index 0 is 3, out of range for 3"},
              {{{{3, 4}}, {{2, 4}, 0, 2, true}, {{3, 4}}},
               AxisAttrs{0},
               "the index has shape [2, 4], the source [3, 4]"}};
    },
    .exact = true,
};

}  // namespace ops

namespace {

Tensor gathered(const Tensor& x, const Tensor& index, const AxisAttrs& attrs) {
  return call_one(ops::gather, {&x, &index}, attrs);
}

Tensor scattered(const Tensor& x, const Tensor& index, const Tensor& source,
                 const AxisAttrs& attrs) {
  return call_one(ops::scatter_add, {&x, &index, &source}, attrs);
}

AxisAttrs axis_of(const char* op, const Tensor& x, std::int64_t axis) {
  return {static_cast<std::int64_t>(normalize_axis(axis, x.rank(), op))};
}

}  // namespace

Tensor gather(const Tensor& x, std::int64_t axis, const Tensor& index) {
  return gathered(x, as_indices(index), axis_of("gather", x, axis));
}

Tensor scatter_add(const Tensor& x, std::int64_t axis, const Tensor& index, const Tensor& source) {
  return scattered(x, as_indices(index), source, axis_of("scatter_add", x, axis));
}

Tensor index_select(const Tensor& x, std::int64_t axis, const Tensor& index) {
  const AxisAttrs attrs = axis_of("index_select", x, axis);
  check_arg(index.rank() == 1, "index_select", "the index has shape ", index.shape(),
            ", one axis is needed. Use reshape(index, {-1})");
  const auto normal = static_cast<std::size_t>(attrs.axis);
  Shape along = Shape::filled(x.rank(), 1);
  along[normal] = index.shape()[0];
  Shape all = x.shape();
  all[normal] = index.shape()[0];
  // A view: the index is not copied for every element of a slice.
  return gathered(x, expand(reshape(as_indices(index), along), all), attrs);
}

}  // namespace mezzo
