#include "mezzo/ops/indexing.h"

#include "mezzo/ops/axis_attrs.h"
#include "mezzo/ops/cast.h"
#include "mezzo/ops/dispatcher/call.h"
#include "mezzo/ops/dispatcher/sample.h"
#include "mezzo/ops/indexing_attrs.h"

namespace mezzo {
namespace {

Tensor embedding_grad(const Tensor& grad, const Tensor& indices, const EmbeddingGradAttrs& attrs);

void check_indices(const Infer& infer, std::size_t i, const char* name) {
  infer.check(infer.dtype(i) == DType::kI64, name, " must be i64, they are ", infer.dtype(i),
              ". Use astype(DType::kI64)");
  infer.check(infer.shape(i).rank() < kMaxRank, name, " have rank ", infer.shape(i).rank(),
              ", at most ", kMaxRank - 1, " is possible. Join some of their axes with reshape()");
}

void infer_one_hot(Infer& infer) {
  const auto& attrs = infer.attrs<OneHotAttrs>();
  check_indices(infer, 0, "labels");
  infer.check(attrs.classes > 0, "the number of classes must be positive: ", attrs.classes,
              ". Give at least one");
  Shape shape = infer.shape(0);
  shape.push_back(attrs.classes);
  infer.output(shape, attrs.dtype);
}

void infer_argmax(Infer& infer) {
  Shape shape = infer.shape(0);
  const std::size_t axis = normalize_axis(infer.attrs<AxisAttrs>().axis, shape.rank(), infer.op());
  infer.check(shape[axis] > 0, "there is nothing to compare: the shape is ", shape,
              ". Choose an axis that is not empty");
  shape.erase(axis);
  infer.output(shape, DType::kI64);
}

void infer_embedding(Infer& infer) {
  infer.check_rank(0, 2, "weight");
  infer.check_floating(0, "weight");
  check_indices(infer, 1, "indices");
  infer.check(infer.shape(0)[0] > 0 || infer.shape(1).numel() == 0,
              "the weight has no rows that indices could name: ", infer.shape(0),
              ". Give it at least one");
  Shape shape = infer.shape(1);
  shape.push_back(infer.shape(0)[1]);
  infer.output(shape, infer.dtype(0));
}

void infer_embedding_grad(Infer& infer) {
  const auto& attrs = infer.attrs<EmbeddingGradAttrs>();
  infer.check_floating(0, "the gradient");
  check_indices(infer, 1, "indices");
  const bool widen = attrs.f32_result && is_lower(infer.dtype(0));
  infer.output({attrs.rows, infer.shape(0).back()}, widen ? DType::kF32 : infer.dtype(0));
}

}  // namespace

namespace ops {

extern const OpDef one_hot{
    .name = "one_hot",
    .doc = "1 at [..., labels[...]] and 0 elsewhere",
    .precision = {.reason = "0 and 1 are exact in every dtype"},
    .infer = infer_one_hot,
    .samples = []() -> std::vector<Sample> {
      return {{{{{7}, 0, 5, true}}, OneHotAttrs{5}},
              {{{{2, 3}, 0, 4, true}}, OneHotAttrs{4, DType::kBf16}},
              {{{{0}, 0, 4, true}}, OneHotAttrs{4}}};
    },
    .errors = []() -> std::vector<ErrorSample> {
      return {{{{{2}, 4, 5, true}}, OneHotAttrs{4}, "index 0 is 4, out of range for 4"},
              {{{{2}}}, OneHotAttrs{4}, "labels must be i64, they are f32"},
              {{{{2}, 0, 1, true}}, OneHotAttrs{0}, "the number of classes must be positive: 0"}};
    },
};

extern const OpDef argmax{
    .name = "argmax",
    .doc = "the position of the largest element along one axis, the first of equal ones",
    .precision = {.cast_mask = 0, .reason = "compares values: rounding them first would make ties"},
    .infer = infer_argmax,
    .samples = []() -> std::vector<Sample> {
      return {{{{{5, 10}}}, AxisAttrs{-1}},
              {{{{2, 3, 4, 5}}}, AxisAttrs{1}},
              {{{{9}}}, AxisAttrs{0}},
              {{{{0, 3}}}, AxisAttrs{1}}};
    },
    .errors = []() -> std::vector<ErrorSample> {
      return {{{{{2, 0}}}, AxisAttrs{1}, "there is nothing to compare: the shape is [2, 0]"},
              {{{{2}}}, AxisAttrs{1}, "axis out of range: 1 for a tensor of rank 1"}};
    },
    .exact = true,
};

extern const OpDef embedding{
    .name = "embedding",
    .doc = "the rows of weight [v, d] that indices name",
    .precision = {.cast_mask = 0,
                  .reason = "copies rows; a cast of the whole table for a few rows would cost more "
                            "than it saves"},
    .saves = {.inputs = 0b10},
    .infer = infer_embedding,
    .backward =
        [](Backward& ctx) {
          const bool f32_result = ctx.grad_dtype(0) == DType::kF32;
          ctx.set(0, mezzo::embedding_grad(ctx.grad(), ctx.input(1),
                                           {ctx.input_shape(0)[0], f32_result}));
        },
    .grad_inputs = 0b01,
    .samples = []() -> std::vector<Sample> {
      return {{{{{7, 5}}, {{4}, 0, 7, true}}, {}, 4},
              {{{{3, 33}}, {{2, 5}, 0, 3, true}}, {}, 10},
              {{{{3, 4}}, {{0}, 0, 3, true}}},
              {{{{3, 4}}, {{}, 0, 3, true}}}};
    },
    .errors = []() -> std::vector<ErrorSample> {
      return {
          {{{{3, 4}}, {{2}, 3, 4, true}}, {}, "index 0 is 3, out of range for 3 rows"},
          {{{{3, 4}}, {{2}}}, {}, "indices must be i64, they are f32"},
          {{{{3}}, {{2}, 0, 1, true}}, {}, "weight"},
          {{{{0, 4}}, {{2}, 0, 1, true}}, {}, "the weight has no rows that indices could name"}};
    },
    .exact = true,
};

extern const OpDef embedding_grad{
    .name = "embedding_grad",
    .doc = "rows of the gradient added up at the rows of the table that indices name",
    .precision = {.reason = "part of a backward pass, which runs in its forward's dtype"},
    .saves = {.inputs = 0b10},
    .infer = infer_embedding_grad,
    .backward = [](Backward& ctx) { ctx.set(0, mezzo::embedding(ctx.grad(), ctx.input(1))); },
    .grad_inputs = 0b01,
    .samples = []() -> std::vector<Sample> {
      return {{{{{4, 5}}, {{4}, 0, 7, true}}, EmbeddingGradAttrs{7, true}, 4},
              {{{{2, 5, 33}}, {{2, 5}, 0, 3, true}}, EmbeddingGradAttrs{3, false}, 10},
              {{{{0, 4}}, {{0}, 0, 3, true}}, EmbeddingGradAttrs{3, true}}};
    },
    .exact = true,
};

}  // namespace ops

namespace {

Tensor embedding_grad(const Tensor& grad, const Tensor& indices, const EmbeddingGradAttrs& attrs) {
  return call_one(ops::embedding_grad, {&grad, &indices}, attrs);
}

}  // namespace

Tensor as_indices(const Tensor& indices) {
  const bool is_narrow = indices.defined() && indices.dtype() == DType::kI32;
  return is_narrow ? indices.astype(DType::kI64) : indices;
}

Tensor one_hot(const Tensor& labels, std::int64_t classes, DType dtype) {
  const Tensor numbers = as_indices(labels);
  return call_one(ops::one_hot, {&numbers}, OneHotAttrs{classes, dtype});
}

Tensor argmax(const Tensor& x, std::int64_t axis) {
  return call_one(ops::argmax, {&x}, AxisAttrs{axis});
}

std::int64_t count_correct(const Tensor& scores, const Tensor& labels) {
  check_arg(scores.rank() == 2 && labels.shape() == Shape{scores.shape()[0]}, "count_correct",
            "scores of shape [n, c] and labels of shape [n] are needed, not ", scores.shape(),
            " and ", labels.shape(), ". Use reshape()");
  const std::vector<std::int64_t> best = argmax(scores, 1).to_vector<std::int64_t>();
  const std::vector<std::int64_t> wanted = labels.to_vector<std::int64_t>();
  std::int64_t count = 0;
  for (std::size_t i = 0; i < best.size(); ++i) count += best[i] == wanted[i] ? 1 : 0;
  return count;
}

Tensor embedding(const Tensor& weight, const Tensor& indices) {
  const Tensor rows = as_indices(indices);
  return call_one(ops::embedding, {&weight, &rows});
}

}  // namespace mezzo
