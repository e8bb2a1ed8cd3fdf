#include "mezzo/ops/argsort.h"

#include "mezzo/ops/argsort_attrs.h"
#include "mezzo/ops/dispatcher/call.h"
#include "mezzo/ops/dispatcher/sample.h"
#include "mezzo/ops/gather.h"

namespace mezzo {
namespace {

void infer_argsort(Infer& infer) {
  const auto& attrs = infer.attrs<ArgsortAttrs>();
  Shape shape = infer.shape(0);
  infer.check(attrs.axis >= 0 && attrs.axis < static_cast<std::int64_t>(shape.rank()),
              "axis out of range: ", attrs.axis, " for a tensor of rank ", shape.rank(),
              ". Choose one that it has");
  std::int64_t& size = shape[static_cast<std::size_t>(attrs.axis)];
  infer.check(attrs.count >= 0 && attrs.count <= size, "cannot choose ", attrs.count, " of ", size,
              " elements. Choose at most that many");
  size = attrs.count;
  infer.output(shape, DType::kI64);
}

}  // namespace

namespace ops {

extern const OpDef argsort{
    .name = "argsort",
    .doc = "the positions of the smallest or largest elements along an axis, in order",
    .precision = {.cast_mask = 0, .reason = "compares values: rounding them first would make ties"},
    .infer = infer_argsort,
    .samples = []() -> std::vector<Sample> {
      return {{{{{5, 10}}}, ArgsortAttrs{1, false, 10}},
              {{{{2, 3, 4, 5}}}, ArgsortAttrs{1, true, 3}},
              {{{{2, 30, 4}}}, ArgsortAttrs{1, true, 7}},
              {{{{90}}}, ArgsortAttrs{0, false, 2}},
              {{{{40, 3}, 0, 5, true}}, ArgsortAttrs{0, true, 40}},
              {{{{2, 3}}}, ArgsortAttrs{1, false, 0}},
              {{{{0, 3}}}, ArgsortAttrs{1, false, 3}}};
    },
    .errors = []() -> std::vector<ErrorSample> {
      return {{{{{2, 3}}}, ArgsortAttrs{1, false, 4}, "cannot choose 4 of 3 elements"},
              {{{{2}}}, ArgsortAttrs{1}, "axis out of range: 1 for a tensor of rank 1"}};
    },
    .exact = true,
};

}  // namespace ops

namespace {

ArgsortAttrs order_of(const char* op, const Tensor& x, std::int64_t axis, bool descending) {
  const std::size_t normal = normalize_axis(axis, x.rank(), op);
  return {static_cast<std::int64_t>(normal), descending, x.shape()[normal]};
}

Sorted sorted_by(const Tensor& x, const ArgsortAttrs& attrs) {
  Tensor indices = call_one(ops::argsort, {&x}, attrs);
  Tensor values = gather(x, attrs.axis, indices);
  return {std::move(values), std::move(indices)};
}

}  // namespace

Sorted sort(const Tensor& x, std::int64_t axis, bool descending) {
  return sorted_by(x, order_of("sort", x, axis, descending));
}

Tensor argsort(const Tensor& x, std::int64_t axis, bool descending) {
  return call_one(ops::argsort, {&x}, order_of("argsort", x, axis, descending));
}

Sorted topk(const Tensor& x, std::int64_t k, std::int64_t axis, bool largest) {
  ArgsortAttrs attrs = order_of("topk", x, axis, largest);
  check_arg(k >= 0 && k <= attrs.count, "topk", "k is ", k, ", the axis has ", attrs.count,
            " elements. Choose at most that many");
  attrs.count = k;
  return sorted_by(x, attrs);
}

}  // namespace mezzo
