#include "mezzo/ops/reduce.h"

#include <algorithm>

#include "mezzo/ops/arithmetic.h"
#include "mezzo/ops/call.h"
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

namespace {

ReduceAttrs make_attrs(const char* op, const Tensor& x, const Shape& axes, bool keepdim,
                       bool f32_result) {
  ReduceAttrs attrs{{}, keepdim, f32_result};
  if (axes.empty()) {
    for (std::size_t i = 0; i < x.rank(); ++i) attrs.axes.push_back(static_cast<std::int64_t>(i));
    return attrs;
  }
  std::array<bool, kMaxRank> named{};
  for (const std::int64_t axis : axes) {
    const std::size_t i = normalize_axis(axis, x.rank(), op);
    check_arg(!named[i], op, "an axis is named twice: ", axes);
    named[i] = true;
  }
  for (std::size_t i = 0; i < x.rank(); ++i) {
    if (named[i]) attrs.axes.push_back(static_cast<std::int64_t>(i));
  }
  return attrs;
}

void infer_reduce(Infer& infer) {
  const auto& attrs = infer.attrs<ReduceAttrs>();
  const bool widen = attrs.f32_result && is_lower(infer.dtype(0));
  infer.output(reduced_shape(infer.shape(0), attrs, attrs.keepdim),
               widen ? DType::kF32 : infer.dtype(0));
}

// The gradient with the reduced axes back in place, ready to broadcast.
Tensor unreduced(Backward& ctx, const Tensor& reduced) {
  return reshape(reduced, reduced_shape(ctx.input_shape(0), ctx.attrs<ReduceAttrs>(), true));
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
    .precision = {.bf16 = PrecisionClass::kFloat32,
                  .f16 = PrecisionClass::kFloat32,
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

}  // namespace ops

Tensor sum(const Tensor& x, const Shape& axes, bool keepdim, std::optional<DType> dtype) {
  const bool f32_result = dtype == DType::kF32;
  const Tensor result = call_one(ops::sum, {&x}, make_attrs("sum", x, axes, keepdim, f32_result));
  return dtype.has_value() ? result.astype(*dtype) : result;
}

}  // namespace mezzo
