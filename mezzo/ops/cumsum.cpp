#include "mezzo/ops/cumsum.h"

#include "mezzo/ops/cumsum_attrs.h"
#include "mezzo/ops/dispatcher/call.h"
#include "mezzo/ops/dispatcher/sample.h"

namespace mezzo {
namespace {

void infer_cumsum(Infer& infer) {
  const Shape& shape = infer.shape(0);
  const std::int64_t axis = infer.attrs<CumsumAttrs>().axis;
  infer.check(axis >= 0 && axis < static_cast<std::int64_t>(shape.rank()),
              "axis out of range: ", axis, " for a tensor of rank ", shape.rank(),
              ". Choose one that it has");
  infer.check(is_floating(infer.dtype(0)) || infer.dtype(0) == DType::kI64,
              "x must be floating-point or i64, it is ", infer.dtype(0),
              ". Use astype(DType::kI64)");
  infer.output(shape, infer.dtype(0));
}

Sample cumsum_sample(const Shape& x, std::int64_t axis, bool reverse = false) {
  return {{{x}}, CumsumAttrs{axis, reverse}, x[static_cast<std::size_t>(axis)]};
}

}  // namespace

namespace ops {

extern const OpDef cumsum{
    .name = "cumsum",
    .doc = "the sum of the elements up to each one, along an axis",
    .precision = {.lower = PrecisionClass::kFloat32,
                  .reason = "a long sum leaves f16's range and loses its small terms in 16 bits"},
    .infer = infer_cumsum,
    .backward =
        [](Backward& ctx) {
          CumsumAttrs attrs = ctx.attrs<CumsumAttrs>();
          attrs.reverse = !attrs.reverse;
          ctx.set(0, call_one(ops::cumsum, {&ctx.grad()}, attrs));
        },
    .samples = []() -> std::vector<Sample> {
      return {cumsum_sample({7, 33}, 1),          cumsum_sample({7, 33}, 0, true),
              cumsum_sample({2, 3, 4, 5}, 2),     cumsum_sample({40}, 0, true),
              cumsum_sample({2, 9, 70}, 1, true), cumsum_sample({0, 3}, 1)};
    },
    .errors = []() -> std::vector<ErrorSample> {
      return {{{{{2, 3}}}, CumsumAttrs{2}, "axis out of range: 2 for a tensor of rank 2"},
              {{{{2}, 0, 1, false, false, true}},
               CumsumAttrs{0},
               "x must be floating-point or i64, it is bool"}};
    },
    .exact = true,
};

}  // namespace ops

Tensor cumsum(const Tensor& x, std::int64_t axis) {
  const auto normal = static_cast<std::int64_t>(normalize_axis(axis, x.rank(), "cumsum"));
  const Tensor terms = is_floating(x.dtype()) ? x : x.astype(DType::kI64);
  return call_one(ops::cumsum, {&terms}, CumsumAttrs{normal});
}

}  // namespace mezzo
