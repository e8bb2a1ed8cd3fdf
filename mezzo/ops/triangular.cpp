#include "mezzo/ops/triangular.h"

#include "mezzo/ops/dispatcher/call.h"
#include "mezzo/ops/dispatcher/sample.h"
#include "mezzo/ops/triangular_attrs.h"

namespace mezzo {
namespace {

void infer_triangle(Infer& infer) {
  infer.check(infer.shape(0).rank() >= 2, "x has shape ", infer.shape(0),
              ", at least [m, n] is needed. Use reshape()");
  infer.output(infer.shape(0), infer.dtype(0));
}

std::vector<Sample> triangle_samples() {
  return {{{{{5, 7}}}, TriangularAttrs{0}},        {{{{7, 5}}}, TriangularAttrs{1}},
          {{{{2, 3, 4, 6}}}, TriangularAttrs{-2}}, {{{{3, 3}}}, TriangularAttrs{-9}},
          {{{{3, 3}}}, TriangularAttrs{9}},        {{{{0, 4}}}, TriangularAttrs{0}}};
}

std::vector<ErrorSample> triangle_errors() {
  return {{{{{4}}}, TriangularAttrs{}, "x has shape [4], at least [m, n] is needed"}};
}

}  // namespace

namespace ops {

extern const OpDef tril{
    .name = "tril",
    .doc = "the lower triangle of matrices, 0 above a diagonal",
    .precision = {.reason = "moves data without arithmetic"},
    .infer = infer_triangle,
    .backward =
        [](Backward& ctx) {
          ctx.set(0, call_one(ops::tril, {&ctx.grad()}, ctx.attrs<TriangularAttrs>()));
        },
    .samples = triangle_samples,
    .errors = triangle_errors,
    .exact = true,
};

extern const OpDef triu{
    .name = "triu",
    .doc = "the upper triangle of matrices, 0 below a diagonal",
    .precision = {.reason = "moves data without arithmetic"},
    .infer = infer_triangle,
    .backward =
        [](Backward& ctx) {
          ctx.set(0, call_one(ops::triu, {&ctx.grad()}, ctx.attrs<TriangularAttrs>()));
        },
    .samples = triangle_samples,
    .errors = triangle_errors,
    .exact = true,
};

}  // namespace ops

Tensor tril(const Tensor& x, std::int64_t diagonal) {
  return call_one(ops::tril, {&x}, TriangularAttrs{diagonal});
}
Tensor triu(const Tensor& x, std::int64_t diagonal) {
  return call_one(ops::triu, {&x}, TriangularAttrs{diagonal});
}

}  // namespace mezzo
