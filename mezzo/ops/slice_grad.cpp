#include "mezzo/ops/dispatcher/call.h"
#include "mezzo/ops/dispatcher/sample.h"
#include "mezzo/ops/slice_attrs.h"

namespace mezzo {
namespace ops {

extern const OpDef slice;

extern const OpDef slice_grad{
    .name = "slice_grad",
    .doc = "zeros of the given shape with grad at the places of a slice",
    .precision = {.reason = "part of a backward pass, which runs in its forward's dtype"},
    .infer =
        [](Infer& infer) {
          const auto& attrs = infer.attrs<SliceGradAttrs>();
          Shape sliced = attrs.shape;
          sliced[static_cast<std::size_t>(attrs.slice.axis)] = attrs.slice.count;
          infer.check(infer.shape(0) == sliced, "the gradient has shape ", infer.shape(0),
                      ", the slice ", sliced, ". Give it the shape of the slice");
          infer.output(attrs.shape, infer.dtype(0), infer.input(0).format());
        },
    .backward =
        [](Backward& ctx) {
          ctx.set(0, call_one(ops::slice, {&ctx.grad()}, ctx.attrs<SliceGradAttrs>().slice));
        },
    .samples = []() -> std::vector<Sample> {
      return {{{{{5, 3}}}, SliceGradAttrs{{5, 7}, {1, 2, 3, 1}}},
              {{{{4, 2}}}, SliceGradAttrs{{9, 2}, {0, 1, 4, 2}}},
              {{{{2, 2, 4, 5}}}, SliceGradAttrs{{2, 3, 4, 5}, {1, 1, 2, 1}}},
              {{{{0}}}, SliceGradAttrs{{4}, {0, 4, 0, 1}}}};
    },
    .errors = []() -> std::vector<ErrorSample> {
      return {{{{{5, 2}}},
               SliceGradAttrs{{5, 7}, {1, 2, 3, 1}},
               "the gradient has shape [5, 2], the slice [5, 3]"}};
    },
    .exact = true,
};

}  // namespace ops

Tensor slice_grad(const Tensor& grad, const Shape& shape, const SliceAttrs& slice) {
  return call_one(ops::slice_grad, {&grad}, SliceGradAttrs{shape, slice});
}

}  // namespace mezzo
