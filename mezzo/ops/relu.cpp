#include "mezzo/ops/relu.h"

#include "mezzo/ops/dispatcher/call.h"
#include "mezzo/ops/dispatcher/sample.h"

namespace mezzo {
namespace ops {

extern const OpDef relu{
    .name = "relu",
    .doc = "max(x, 0) element by element",
    .precision = {.reason = "chooses between values, rounds nothing"},
    .saves = {.outputs = 0b1},
    .infer =
        [](Infer& infer) {
          infer.check_floating(0, "x");
          infer.output_like(0);
        },
    .backward = [](Backward& ctx) { ctx.set(0, mezzo::relu_grad(ctx.grad(), ctx.output())); },
    .samples = []() -> std::vector<Sample> {
      return {{{{{2, 3, 4, 5}}}}, {{{{129}}}}, {{{{}}}}, {{{{0, 4}}}}};
    },
    .exact = true,
};

extern const OpDef relu_grad{
    .name = "relu_grad",
    .doc = "0 where y <= 0, else grad: a NaN lets it pass",
    .precision = {.reason = "part of a backward pass, which runs in its forward's dtype"},
    .saves = {.inputs = 0b10},
    .infer =
        [](Infer& infer) {
          infer.check_same_dtype(0, 1);
          infer.check(infer.shape(0) == infer.shape(1), "grad has shape ", infer.shape(0),
                      ", y has shape ", infer.shape(1), ". Give both the same shape");
          infer.output_like(1);
        },
    .backward = [](Backward& ctx) { ctx.set(0, mezzo::relu_grad(ctx.grad(), ctx.input(1))); },
    .grad_inputs = 0b01,
    .samples = []() -> std::vector<Sample> {
      return {{{{{2, 3, 4, 5}}, {{2, 3, 4, 5}}}}, {{{{67}}, {{67}}}}};
    },
    .errors = []() -> std::vector<ErrorSample> {
      return {{{{{3}}, {{2, 3}}}, {}, "grad has shape [3], y has shape [2, 3]"}};
    },
    .exact = true,
};

}  // namespace ops

Tensor relu(const Tensor& x) { return call_one(ops::relu, {&x}); }
Tensor relu_grad(const Tensor& grad, const Tensor& y) {
  return call_one(ops::relu_grad, {&grad, &y});
}

}  // namespace mezzo
