#include "mezzo/ops/shape_ops.h"

#include <algorithm>
#include <optional>

#include "mezzo/ops/arithmetic.h"
#include "mezzo/ops/cast.h"
#include "mezzo/ops/dispatcher/call.h"
#include "mezzo/ops/dispatcher/sample.h"
#include "mezzo/ops/shape_attrs.h"

namespace mezzo {
namespace {

constexpr PrecisionRule kMovesData{.reason = "moves data without arithmetic"};

// The strides that give x another shape, with elements in row-major order; none if a copy is
// needed. Walks both shapes from the last axis and matches groups of axes with equal element
// counts.
std::optional<Strides> strides_for_view(const Tensor& x, const Shape& shape) {
  if (!is_countable(shape, 1) || shape.numel() != x.numel()) return std::nullopt;
  Strides strides = Shape::filled(shape.rank(), 1);
  if (x.numel() == 0) return strides_for(shape, Format::kContiguous);
  std::size_t to = shape.rank();
  std::int64_t chunk = 1;     // elements in the current run of mergeable axes of x
  std::int64_t base = 1;      // stride of that run's last axis
  std::int64_t assigned = 1;  // elements of the run already assigned to new axes
  bool open = false;
  for (std::size_t from = x.rank(); from-- > 0;) {
    if (x.shape()[from] == 1) continue;
    if (!open) {
      chunk = 1;
      assigned = 1;
      base = x.strides()[from];
      open = true;
    }
    chunk *= x.shape()[from];
    // Axes merge while the next outer one continues the run without a gap.
    std::size_t outer = from;
    while (outer > 0 && x.shape()[outer - 1] == 1) --outer;
    if (outer > 0 && x.strides()[outer - 1] == base * chunk) continue;
    while (to > 0 && (assigned < chunk || shape[to - 1] == 1)) {
      strides[--to] = base * assigned;
      assigned *= shape[to];
    }
    if (assigned != chunk) return std::nullopt;
    open = false;
  }
  return strides;
}

Tensor view_expand(const Tensor& x, const Attrs& attrs) {
  const Shape& shape = attrs.as<ShapeAttrs>().shape;
  check_arg(shape.rank() >= x.rank() && broadcast(x.shape(), shape, "expand") == shape, "expand",
            "the shape ", x.shape(), " cannot be broadcast to ", shape,
            ". Only axes of size 1 can grow");
  const std::size_t extra = shape.rank() - x.rank();
  Strides strides = Shape::filled(shape.rank(), 0);
  for (std::size_t i = extra; i < shape.rank(); ++i) {
    strides[i] = x.shape()[i - extra] == shape[i] ? x.strides()[i - extra] : 0;
  }
  return alias(x, shape, strides, x.offset());
}

Tensor view_permute(const Tensor& x, const Attrs& attrs) {
  const Shape& axes = attrs.as<ShapeAttrs>().shape;
  Shape shape;
  Strides strides;
  for (std::size_t i = 0; i < x.rank(); ++i) {
    const bool is_named = std::ranges::count(axes, static_cast<std::int64_t>(i)) == 1;
    check_arg(is_named && axes.rank() == x.rank(), "permute", axes, " is not a permutation of ",
              x.rank(), " axes. Give each of them once");
  }
  for (const std::int64_t axis : axes) {
    shape.push_back(x.shape()[static_cast<std::size_t>(axis)]);
    strides.push_back(x.strides()[static_cast<std::size_t>(axis)]);
  }
  return alias(x, shape, strides, x.offset());
}

}  // namespace

namespace ops {

// Called only if strides_for_view() found strides.
extern const OpDef reshape{
    .name = "reshape",
    .doc = "the same elements in row-major order under another shape",
    .precision = kMovesData,
    .view =
        [](const Tensor& x, const Attrs& attrs) {
          const Shape& shape = attrs.as<ShapeAttrs>().shape;
          return alias(x, shape, strides_for_view(x, shape).value(), x.offset());
        },
    .backward = [](Backward& ctx) { ctx.set(0, mezzo::reshape(ctx.grad(), ctx.input_shape(0))); },
    .samples = []() -> std::vector<Sample> {
      return {{{{{2, 3, 4}}}, ShapeAttrs{{6, 4}}},
              {{{{2, 3, 4}}}, ShapeAttrs{{2, 1, 12}}},
              {{{{}}}, ShapeAttrs{{1, 1}}},
              {{{{0, 3}}}, ShapeAttrs{{3, 0}}}};
    },
    .exact = true,
};

extern const OpDef permute{
    .name = "permute",
    .doc = "x with its axes in another order",
    .precision = kMovesData,
    .view = view_permute,
    .backward =
        [](Backward& ctx) {
          const Shape& axes = ctx.attrs<ShapeAttrs>().shape;
          Shape inverse = axes;
          for (std::size_t i = 0; i < axes.rank(); ++i) {
            inverse[static_cast<std::size_t>(axes[i])] = static_cast<std::int64_t>(i);
          }
          ctx.set(0, mezzo::permute(ctx.grad(), inverse));
        },
    .samples = []() -> std::vector<Sample> {
      return {{{{{2, 3, 4}}}, ShapeAttrs{{2, 0, 1}}}, {{{{5, 7}}}, ShapeAttrs{{1, 0}}}};
    },
    .exact = true,
};

extern const OpDef expand{
    .name = "expand",
    .doc = "x broadcast to a larger shape",
    .precision = kMovesData,
    .view = view_expand,
    .backward =
        [](Backward& ctx) {
          ctx.set(0, sum_to(ctx.grad(), ctx.input_shape(0), ctx.grad_dtype(0)));
        },
    .samples = []() -> std::vector<Sample> {
      return {{{{{3, 1}}}, ShapeAttrs{{2, 3, 4}}}, {{{{}}}, ShapeAttrs{{5}}}};
    },
    .exact = true,
};

}  // namespace ops

namespace {

void check_countable(const char* op, const Tensor& x, const Shape& shape) {
  check_arg(is_countable(shape, size_of(x.dtype())), op, x.dtype(), shape,
            " has more bytes than can be counted. Check the sizes");
}

}  // namespace

Tensor expand(const Tensor& x, const Shape& shape) {
  if (x.shape() == shape) return x;
  check_arg(std::ranges::all_of(shape, [](std::int64_t size) { return size >= 0; }), "expand",
            "a size is negative: ", shape, ". Give every size");
  check_arg(shape.rank() >= x.rank() && broadcast(x.shape(), shape, "expand") == shape, "expand",
            "the shape ", x.shape(), " cannot be broadcast to ", shape,
            ". Only axes of size 1 can grow");
  check_countable("expand", x, shape);
  return call_one(ops::expand, {&x}, ShapeAttrs{shape});
}

Tensor reshape(const Tensor& x, const Shape& wanted) {
  Shape shape = wanted;
  std::int64_t* open = nullptr;
  for (std::size_t i = 0; i < shape.rank(); ++i) {
    if (shape[i] == -1) {
      check_arg(open == nullptr, "reshape", "more than one size is -1: ", wanted,
                ". Leave one open");
      open = &shape[i];
      *open = 1;
    } else {
      check_arg(shape[i] >= 0, "reshape", "a size is negative: ", wanted,
                ". Only one may be open, as -1");
    }
  }
  check_countable("reshape", x, shape);
  const std::int64_t known = shape.numel();
  if (open != nullptr && known > 0) *open = x.numel() / known;
  check_arg(shape.numel() == x.numel() && (open == nullptr || known > 0), "reshape", "the shape ",
            x.shape(), " has ", x.numel(), " elements and cannot become ", wanted,
            ". Keep the number of elements");
  if (shape == x.shape()) return x;
  const Tensor source = strides_for_view(x, shape).has_value() ? x : contiguous(x);
  return call_one(ops::reshape, {&source}, ShapeAttrs{shape});
}

Tensor flatten(const Tensor& x, std::int64_t start, std::int64_t end) {
  if (x.rank() == 0) return reshape(x, {1});
  const std::size_t first = normalize_axis(start, x.rank(), "flatten");
  const std::size_t last = normalize_axis(end, x.rank(), "flatten");
  check_arg(first <= last, "flatten", "axes are in the wrong order: ", start, " and ", end,
            ". Give the smaller one first");
  Shape shape;
  for (std::size_t i = 0; i < x.rank(); ++i) {
    if (i > first && i <= last) {
      shape.back() *= x.shape()[i];
    } else {
      shape.push_back(x.shape()[i]);
    }
  }
  return reshape(x, shape);
}

Tensor permute(const Tensor& x, const Shape& axes) {
  check_arg(axes.rank() == x.rank(), "permute", axes.rank(), " axes for a tensor of rank ",
            x.rank(), ". Give each of them once");
  Shape normal = axes;
  std::array<bool, kMaxRank> seen{};
  for (std::size_t i = 0; i < axes.rank(); ++i) {
    const std::size_t axis = normalize_axis(axes[i], x.rank(), "permute");
    check_arg(!seen[axis], "permute", "an axis is given twice: ", axes, ". Give each of them once");
    seen[axis] = true;
    normal[i] = static_cast<std::int64_t>(axis);
  }
  return call_one(ops::permute, {&x}, ShapeAttrs{normal});
}

Tensor transpose(const Tensor& x, std::int64_t axis_a, std::int64_t axis_b) {
  const std::size_t a = normalize_axis(axis_a, x.rank(), "transpose");
  const std::size_t b = normalize_axis(axis_b, x.rank(), "transpose");
  Shape axes;
  for (std::size_t i = 0; i < x.rank(); ++i) axes.push_back(static_cast<std::int64_t>(i));
  std::swap(axes[a], axes[b]);
  return permute(x, axes);
}

}  // namespace mezzo
