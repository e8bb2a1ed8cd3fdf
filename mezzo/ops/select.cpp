#include "mezzo/ops/select.h"

#include "mezzo/ops/broadcasting.h"
#include "mezzo/ops/dispatcher/call.h"
#include "mezzo/ops/dispatcher/sample.h"
#include "mezzo/ops/pointwise_grad.h"
#include "mezzo/ops/select_attrs.h"

namespace mezzo {
namespace {

Tensor filled(const Tensor& x, const Tensor& mask, MaskedFillAttrs attrs);

SampleInput mask_of(const Shape& shape) { return {.shape = shape, .boolean = true}; }

void check_mask(Infer& infer, std::size_t i, const char* name) {
  infer.check(infer.dtype(i) == DType::kBool, name, " must be bool, it is ", infer.dtype(i),
              ". Compare it with something, such as ne(", name, ", 0)");
}

std::vector<Sample> where_samples() {
  const auto choice = [](const Shape& condition, const Shape& a, const Shape& b) {
    return Sample{{mask_of(condition), {a}, {b}}};
  };
  return {choice({2, 3, 4, 5}, {2, 3, 4, 5}, {2, 3, 4, 5}),
          choice({67}, {67}, {67}),
          choice({4, 5}, {2, 3, 4, 5}, {}),
          choice({7, 1}, {13}, {7, 1}),
          choice({2, 1, 4}, {2, 3, 1}, {1, 3, 4}),
          choice({}, {3, 3}, {3}),
          choice({0, 3}, {3}, {}),
          choice({}, {}, {})};
}

std::vector<Sample> masked_fill_samples() {
  const auto fill = [](const Shape& x, const Shape& mask, MaskedFillAttrs attrs) {
    return Sample{{{x}, mask_of(mask)}, attrs};
  };
  return {fill({2, 3, 4, 5}, {2, 3, 4, 5}, {0.1, true}),
          fill({2, 3, 4, 5}, {4, 5}, {-3, true}),
          fill({67}, {67}, {0, false}),
          fill({5}, {3, 1}, {2, false}),
          fill({0, 3}, {3}, {}),
          fill({}, {}, {-1, true})};
}

std::vector<Sample> maximum_grad_samples() {
  const auto call = [](const Shape& grad, const Shape& a, const Shape& b) {
    return Sample{{{grad}, {a}, {b}}};
  };
  return {call({2, 3, 4, 5}, {2, 3, 4, 5}, {2, 3, 4, 5}), call({67}, {67}, {67}),
          call({3, 33}, {3, 1}, {33}), call({2, 3, 4}, {2, 1, 4}, {2, 3, 1}), call({}, {}, {})};
}

}  // namespace

namespace ops {

extern const OpDef where{
    .name = "where",
    .doc = "a where the condition is true, b elsewhere, with broadcasting",
    .precision = {.lower = PrecisionClass::kWidest,
                  .cast_mask = 0b110,
                  .reason = "a and b must agree; rounding the wider one would lose what it was "
                            "kept wide for"},
    .saves = {.inputs = 0b001},
    .promote = 0b110,
    .infer =
        [](Infer& infer) {
          check_mask(infer, 0, "condition");
          infer.check_same_dtype(1, 2);
          output_broadcast(infer, infer.dtype(1), {1, 2, 0});
        },
    .backward =
        [](Backward& ctx) {
          const Tensor condition = ctx.input(0);
          if (ctx.needs(1)) set_reduced(ctx, 1, filled(ctx.grad(), condition, {0, false}));
          if (ctx.needs(2)) set_reduced(ctx, 2, filled(ctx.grad(), condition, {0, true}));
        },
    .grad_inputs = 0b110,
    .samples = where_samples,
    .errors = []() -> std::vector<ErrorSample> {
      return {{{{{2}}, {{2}}, {{2}}}, {}, "condition must be bool, it is f32. Compare it"},
              {{mask_of({3}), {{2, 3}}, {{2, 4}}},
               {},
               "shapes cannot be broadcast together: [2, 3] and [2, 4]"}};
    },
    .exact = true,
};

extern const OpDef masked_fill{
    .name = "masked_fill",
    .doc = "x with a scalar wherever the mask is true, or false, with broadcasting",
    .precision = {.cast_mask = 0b01,
                  .reason =
                      "chooses between values, rounds nothing but the number, which stays finite"},
    .saves = {.inputs = 0b10},
    .infer =
        [](Infer& infer) {
          check_mask(infer, 1, "mask");
          output_broadcast(infer, infer.dtype(0), {0, 1});
        },
    .backward =
        [](Backward& ctx) {
          const bool where_filled = ctx.attrs<MaskedFillAttrs>().where;
          set_reduced(ctx, 0, filled(ctx.grad(), ctx.input(1), {0, where_filled}));
        },
    .grad_inputs = 0b01,
    .samples = masked_fill_samples,
    .errors = []() -> std::vector<ErrorSample> {
      return {{{{{2}}, {{2}, 0, 2, true}}, MaskedFillAttrs{}, "mask must be bool, it is i64"},
              {{{{2, 3}}, mask_of({2, 4})},
               MaskedFillAttrs{},
               "shapes cannot be broadcast together: [2, 3] and [2, 4]"}};
    },
    .exact = true,
};

extern const OpDef maximum_grad{
    .name = "maximum_grad",
    .doc = "grad where a > b, grad / 2 where a = b, 0 where a < b",
    .precision = kPartOfBackward,
    .saves = {.inputs = 0b110},
    .infer =
        [](Infer& infer) {
          const Shape shape = broadcast(infer.shape(1), infer.shape(2), infer.op());
          infer.check_same_dtype(0, 1);
          infer.check_same_dtype(1, 2);
          infer.check(infer.shape(0) == shape, "the gradient has shape ", infer.shape(0),
                      ", the result ", shape, ". Give it the shape of the result");
          infer.output_like(0);
        },
    .backward =
        [](Backward& ctx) {
          ctx.set(0, mezzo::maximum_grad(ctx.grad(), ctx.input(1), ctx.input(2)));
        },
    .grad_inputs = 0b001,
    .samples = maximum_grad_samples,
    .errors = []() -> std::vector<ErrorSample> {
      return {{{{{3}}, {{2, 3}}, {{3}}}, {}, "the gradient has shape [3], the result [2, 3]"}};
    },
    .exact = true,
};

}  // namespace ops

namespace {

Tensor filled(const Tensor& x, const Tensor& mask, MaskedFillAttrs attrs) {
  return call_one(ops::masked_fill, {&x, &mask}, attrs);
}

}  // namespace

Tensor where(const Tensor& condition, const Tensor& a, const Tensor& b) {
  return call_one(ops::where, {&condition, &a, &b});
}

Tensor masked_fill(const Tensor& x, const Tensor& mask, double number) {
  return filled(x, mask, {number, true});
}

Tensor maximum_grad(const Tensor& grad, const Tensor& a, const Tensor& b) {
  return call_one(ops::maximum_grad, {&grad, &a, &b});
}

}  // namespace mezzo
