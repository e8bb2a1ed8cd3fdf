#include <algorithm>

#include "mezzo/ops/dispatcher/call.h"
#include "mezzo/ops/dispatcher/sample.h"
#include "mezzo/ops/shape_ops.h"
#include "mezzo/ops/slice_attrs.h"

namespace mezzo {

Tensor slice_of(const Tensor& x, const SliceAttrs& slice) {
  const auto axis = static_cast<std::size_t>(slice.axis);
  Shape shape = x.shape();
  Strides strides = x.strides();
  shape[axis] = slice.count;
  strides[axis] *= slice.step;
  return alias(x, shape, strides, x.offset() + slice.start * x.strides()[axis]);
}

namespace {

Tensor view_slice(const Tensor& x, const Attrs& attrs) {
  const auto& slice = attrs.as<SliceAttrs>();
  const std::size_t axis = normalize_axis(slice.axis, x.rank(), "slice");
  // The distance from the first element to the end of the axis.
  const std::int64_t room = x.shape()[axis] - 1 - slice.start;
  const bool is_there =
      slice.axis >= 0 && slice.start >= 0 && slice.count >= 0 && slice.step >= 1 &&
      (slice.count <= 1 ? room >= slice.count - 1 : room / slice.step >= slice.count - 1);
  check_arg(is_there, "slice", x, " has no such elements: {", attrs.to_text(),
            "}. Stay within the axis");
  return slice_of(x, slice);
}

}  // namespace

namespace ops {

extern const OpDef slice{
    .name = "slice",
    .doc = "every step-th element along one axis, from a start on",
    .precision = {.reason = "moves data without arithmetic"},
    .view = view_slice,
    .backward =
        [](Backward& ctx) {
          ctx.set(0, mezzo::slice_grad(ctx.grad(), ctx.input_shape(0), ctx.attrs<SliceAttrs>()));
        },
    .samples = []() -> std::vector<Sample> {
      return {{{{{5, 7}}}, SliceAttrs{1, 2, 3, 1}},
              {{{{9, 2}}}, SliceAttrs{0, 1, 4, 2}},
              {{{{2, 3, 4, 5}}}, SliceAttrs{1, 1, 2, 1}},
              {{{{4}}}, SliceAttrs{0, 4, 0, 1}}};
    },
    .exact = true,
};

}  // namespace ops

Tensor slice(const Tensor& x, std::int64_t axis, std::int64_t start, std::int64_t end,
             std::int64_t step) {
  check_arg(step >= 1, "slice", "the step must be at least 1: ", step, ". Use 1 to take all");
  const std::size_t normal = normalize_axis(axis, x.rank(), "slice");
  const std::int64_t size = x.shape()[normal];
  const auto position = [size](std::int64_t i) {
    return std::clamp<std::int64_t>(i < 0 ? i + size : i, 0, size);
  };
  const std::int64_t first = position(start);
  const std::int64_t length = std::max<std::int64_t>(0, position(end) - first);
  if (length == size && step == 1) return x;
  const std::int64_t count = length == 0 ? 0 : (length - 1) / step + 1;
  // The step of a single element does not matter and may be arbitrarily large; as a stride it would
  // overflow.
  return call_one(
      ops::slice, {&x},
      SliceAttrs{static_cast<std::int64_t>(normal), first, count, count > 1 ? step : 1});
}

}  // namespace mezzo
