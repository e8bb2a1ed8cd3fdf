#include "mezzo/ops/rope.h"

#include <cmath>

#include "mezzo/ops/dispatcher/call.h"
#include "mezzo/ops/dispatcher/sample.h"
#include "mezzo/ops/indexing.h"
#include "mezzo/ops/rope_attrs.h"

namespace mezzo {
namespace {

void infer_rope(Infer& infer) {
  const auto& attrs = infer.attrs<RopeAttrs>();
  infer.check_floating(0, "x");
  const Shape& shape = infer.shape(0);
  infer.check(shape.rank() >= 2, "x has shape ", shape,
              ", at least [t, d] is needed. Give it an axis for the sequence");
  infer.check(shape.back() % 2 == 0, "the last axis of x has an odd size: ", shape,
              ". Rotate an even part of it");
  infer.check(attrs.axis >= 0 && attrs.axis + 1 < static_cast<std::int64_t>(shape.rank()),
              "the sequence cannot be axis ", attrs.axis, " of shape ", shape,
              ". Choose one before the last");
  infer.check(attrs.theta > 0 && std::isfinite(attrs.theta), "theta is ", attrs.theta,
              ". Give a positive number");
  const std::int64_t length = shape[static_cast<std::size_t>(attrs.axis)];
  constexpr std::int64_t kMost = std::int64_t{1} << 53;
  infer.check(std::abs(attrs.offset) <= kMost - length, "the offset is ", attrs.offset,
              ", beyond what f64 can count. Give a position");
  if (infer.has(1)) {
    const Shape& positions = infer.shape(1);
    const bool fits =
        positions == Shape{length} || (attrs.axis > 0 && positions == Shape{shape[0], length});
    infer.check(fits && infer.dtype(1) == DType::kI64, "positions are ", infer.input(1),
                " for x of shape ", shape, ". Give one integer for each of the ", length,
                " rows, or for each of them in each example");
  }
  infer.output(shape, infer.dtype(0));
}

Sample rope_sample(const Shape& x, const RopeAttrs& attrs, const Shape& positions = {}) {
  return {{{x}, {positions, 0, 5000, true, positions.empty()}}, attrs, 2, 1};
}

}  // namespace

namespace ops {

extern const OpDef rope{
    .name = "rope",
    .doc = "pairs of the last axis rotated by an angle that grows with the position",
    .precision = {.cast_mask = 0b1,
                  .reason = "a rotation keeps the length of a pair; angles are f64 and their sines "
                            "f32 inside, and each result is rounded once"},
    .saves = {.inputs = 0b10},
    .infer = infer_rope,
    .backward =
        [](Backward& ctx) {
          RopeAttrs attrs = ctx.attrs<RopeAttrs>();
          attrs.inverse = !attrs.inverse;
          const Tensor positions = ctx.has_input(1) ? ctx.input(1) : Tensor();
          ctx.set(0, call_one(ops::rope, {&ctx.grad(), &positions}, attrs));
        },
    .grad_inputs = 0b01,
    .samples = []() -> std::vector<Sample> {
      using enum RopePairing;
      return {rope_sample({2, 3, 5, 8}, {2, 10000, 0, kHalves}),
              rope_sample({2, 3, 5, 6}, {2, 10000, 3, kNeighbours}),
              rope_sample({2, 5, 3, 34}, {1, 500000, 0, kHalves}),
              rope_sample({2, 5, 3, 34}, {1, 10000, 7, kNeighbours, true}),
              rope_sample({40, 64}, {0, 10000, 0, kHalves, true}),
              rope_sample({2, 3, 5, 8}, {2, 10000, 0, kHalves}, {5}),
              rope_sample({2, 5, 3, 8}, {1, 10000, 1, kNeighbours}, {2, 5}),
              rope_sample({2, 0, 4}, {1, 10000}),
              rope_sample({2, 3, 0}, {1, 10000})};
    },
    .errors = []() -> std::vector<ErrorSample> {
      return {{{{{2, 3}}}, RopeAttrs{}, "the last axis of x has an odd size: [2, 3]"},
              {{{{4}}}, RopeAttrs{}, "x has shape [4], at least [t, d] is needed"},
              {{{{2, 4}}}, RopeAttrs{1}, "the sequence cannot be axis 1 of shape [2, 4]"},
              {{{{2, 4}}}, RopeAttrs{0, 0}, "theta is 0. Give a positive number"},
              {{{{2, 4}}, {{3}, 0, 4, true}}, RopeAttrs{}, "positions are i64[3]"}};
    },
    .ulps = 3,
};

}  // namespace ops

namespace {

Tensor rotate(const Tensor& x, const Tensor& positions, const RopeOptions& options) {
  const auto axis = static_cast<std::int64_t>(normalize_axis(options.axis, x.rank(), "rope"));
  return call_one(ops::rope, {&x, &positions},
                  RopeAttrs{axis, options.theta, options.offset, options.pairing});
}

}  // namespace

Tensor rope(const Tensor& x, const RopeOptions& options) { return rotate(x, {}, options); }

Tensor rope(const Tensor& x, const Tensor& positions, const RopeOptions& options) {
  return rotate(x, as_indices(positions), options);
}

}  // namespace mezzo
