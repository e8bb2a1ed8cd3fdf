#include "mezzo/ops/losses.h"

#include "mezzo/ops/arithmetic.h"
#include "mezzo/ops/cast.h"
#include "mezzo/ops/dispatcher/call.h"
#include "mezzo/ops/dispatcher/sample.h"
#include "mezzo/ops/indexing.h"
#include "mezzo/ops/losses_attrs.h"
#include "mezzo/ops/reduce.h"
#include "mezzo/ops/shape_ops.h"
#include "mezzo/ops/softmax.h"

namespace mezzo {
namespace {

DType loss_dtype(DType dtype) { return dtype == DType::kF64 ? DType::kF64 : DType::kF32; }

// cross_entropy -----------------------------------------------------------------------------------
void check_logits_and_labels(const Infer& infer, std::size_t logits) {
  const std::size_t labels = logits + 1;
  infer.check_floating(logits, "logits");
  infer.check_rank(logits, 2, "logits");
  const Shape& shape = infer.shape(logits);
  if (infer.shape(labels) == Shape{shape[0], 1} && shape[1] != 1) {
    infer.check(false, "labels are i64 class numbers of shape ", Shape{shape[0]}, "; these have ",
                infer.shape(labels), ". Use reshape(labels, {-1})");
  } else if (infer.shape(labels).rank() == 2) {
    infer.check(infer.shape(labels) == shape, "the logits have shape ", shape,
                ", the probabilities ", infer.shape(labels), ". Give both the same shape");
    infer.check_floating(labels, "a matrix of labels");
  } else {
    infer.check(infer.dtype(labels) == DType::kI64,
                "labels are i64 class numbers, or probabilities ", "of shape ", shape,
                "; these are ", infer.dtype(labels), infer.shape(labels),
                ". Use astype(DType::kI64)");
    infer.check(infer.shape(labels) == Shape{shape[0]}, "the logits have shape ", shape,
                ", the labels ", infer.shape(labels), ". Give each row of logits one label");
  }
  infer.check(shape[1] > 0, "there are no classes: the logits have shape ", shape,
              ". Give the last layer at least one output");
}

void infer_cross_entropy(Infer& infer) {
  check_logits_and_labels(infer, 0);
  const auto& attrs = infer.attrs<CrossEntropyAttrs>();
  const std::int64_t n = infer.shape(0)[0];
  infer.check(attrs.label_smoothing >= 0 && attrs.label_smoothing <= 1,
              "label_smoothing must be in [0, 1]: ", attrs.label_smoothing, ". Use 0 for none");
  infer.check(
      n > 0 || attrs.reduction != Reduction::kMean,
      "there is nothing to average: the batch is empty. Leave it out, or use Reduction::kSum");
  const DType dtype = loss_dtype(infer.dtype(0));
  infer.output(attrs.reduction == Reduction::kNone ? Shape{n} : Shape{}, dtype);
  // The maximum and the logarithm of the sum of each row, as two values. If their sum were rounded,
  // all probabilities of the backward pass would be off by a factor when logits are large.
  infer.output({n, 2}, dtype);
}

// The gradient of every example's loss as a column, to be broadcast over the classes.
Tensor example_grads(Backward& ctx, std::int64_t n) {
  const Reduction reduction = ctx.attrs<CrossEntropyAttrs>().reduction;
  if (reduction == Reduction::kNone) return reshape(ctx.grad(), {n, 1});
  return reshape(ctx.grad() * loss_scale(reduction, n), {1, 1});
}

// The gradients from differentiable operations.
void cross_entropy_backward_in_ops(Backward& ctx) {
  const double smoothing = ctx.attrs<CrossEntropyAttrs>().label_smoothing;
  const Tensor logits = ctx.input(0).astype(ctx.grad().dtype());
  const Tensor labels = ctx.input(1);
  const std::int64_t n = logits.shape()[0];
  const std::int64_t classes = logits.shape()[1];
  const Tensor grad = example_grads(ctx, n);
  const Tensor probabilities = is_floating(labels.dtype()) ? labels.astype(grad.dtype())
                                                           : one_hot(labels, classes, grad.dtype());
  if (ctx.needs(0)) {
    const Tensor target =
        affine(probabilities, 1 - smoothing, smoothing / static_cast<double>(classes));
    ctx.set(0, grad * (softmax(logits, 1) * sum(target, {1}, true) - target));
  }
  if (ctx.needs(1)) ctx.set(1, grad * (log_softmax(logits, 1) * (smoothing - 1)));
}

Tensor cross_entropy_grad(const Tensor& grad, const Tensor& logits, const Tensor& labels,
                          const Tensor& rows, const CrossEntropyAttrs& attrs);

void cross_entropy_backward(Backward& ctx) {
  const bool only_logits = !ctx.needs(1);
  if (ctx.create_graph() || !only_logits) {
    cross_entropy_backward_in_ops(ctx);
  } else {
    ctx.set(0, cross_entropy_grad(ctx.grad(), ctx.input(0), ctx.input(1), ctx.output(1),
                                  ctx.attrs<CrossEntropyAttrs>()));
  }
}

std::vector<Sample> cross_entropy_samples() {
  const auto numbers = [](std::int64_t n, std::int64_t c, CrossEntropyAttrs attrs) {
    return Sample{{{{n, c}, -4, 4}, {{n}, 0, static_cast<double>(c), true}}, attrs, c, 9};
  };
  const auto probabilities = [](std::int64_t n, std::int64_t c, CrossEntropyAttrs attrs) {
    return Sample{{{{n, c}, -4, 4}, {{n, c}, 0, 1}}, attrs, n * c, 9};
  };
  return {numbers(7, 10, {}),
          numbers(3, 67, {0.1, Reduction::kSum}),
          numbers(4, 5, {0.25, Reduction::kNone}),
          numbers(1, 1, {}),
          numbers(0, 3, {0, Reduction::kSum}),
          probabilities(5, 11, {}),
          probabilities(4, 19, {0.1, Reduction::kNone})};
}

std::vector<ErrorSample> cross_entropy_errors() {
  const CrossEntropyAttrs mean{};
  return {{{{{2, 3}}, {{2}, 3, 4, true}}, mean, "label 0 is 3, out of range for 3 classes"},
          {{{{2, 3}}, {{3}, 0, 3, true}}, mean, "the logits have shape [2, 3], the labels [3]"},
          {{{{2, 3}}, {{2}}}, mean, "labels are i64 class numbers"},
          {{{{2, 3}}, {{2, 4}}}, mean, "the logits have shape [2, 3], the probabilities [2, 4]"},
          {{{{2, 3}}, {{2, 1}, 0, 3, true}}, mean, "these have [2, 1]. Use reshape(labels, {-1})"},
          {{{{2, 3}}, {{2, 1}}}, mean, "these have [2, 1]. Use reshape(labels, {-1})"},
          {{{{2}}, {{2}, 0, 2, true}}, mean, "logits"},
          {{{{0, 3}}, {{0}, 0, 3, true}}, mean, "the batch is empty"},
          {{{{2, 3}}, {{2}, 0, 3, true}},
           CrossEntropyAttrs{1.5, Reduction::kMean},
           "label_smoothing must be in [0, 1]: 1.5"}};
}

// mse_loss ----------------------------------------------------------------------------------------
void infer_mse(Infer& infer) {
  infer.check_floating(0, "the prediction");
  infer.check_same_dtype(0, 1);
  infer.check(infer.shape(0) == infer.shape(1), "the prediction has shape ", infer.shape(0),
              ", the target ", infer.shape(1), ". Give both the same shape");
  const Reduction reduction = infer.attrs<MseAttrs>().reduction;
  infer.check(infer.shape(0).numel() > 0 || reduction != Reduction::kMean,
              "there is nothing to average: the shape is ", infer.shape(0),
              ". Leave it out, or use Reduction::kSum");
  infer.output(reduction == Reduction::kNone ? infer.shape(0) : Shape{}, loss_dtype(infer.dtype(0)),
               reduction == Reduction::kNone ? infer.input(0).format() : Format::kContiguous);
}

Tensor mse_grad(const Tensor& grad, const Tensor& prediction, const Tensor& target,
                const MseAttrs& attrs);

void mse_backward(Backward& ctx) {
  const auto& attrs = ctx.attrs<MseAttrs>();
  const Tensor prediction = ctx.input(0);
  const Tensor target = ctx.input(1);
  Tensor grad;
  if (ctx.create_graph()) {
    const DType dtype = ctx.grad().dtype();
    const double scale = 2 * loss_scale(attrs.reduction, prediction.numel());
    grad = (prediction.astype(dtype) - target.astype(dtype)) * (ctx.grad() * scale);
  } else {
    grad = mse_grad(ctx.grad(), prediction, target, attrs);
  }
  if (ctx.needs(0)) ctx.set(0, grad);
  if (ctx.needs(1)) ctx.set(1, -grad);
}

std::vector<Sample> mse_samples() {
  return {{{{{3, 7}}, {{3, 7}}}, MseAttrs{}, 21, 4},
          {{{{2, 3, 4, 5}}, {{2, 3, 4, 5}}}, MseAttrs{Reduction::kSum}, 120, 4},
          {{{{2, 3, 4, 5}}, {{2, 3, 4, 5}}}, MseAttrs{Reduction::kNone}, 1, 4},
          {{{{0, 2}}, {{0, 2}}}, MseAttrs{Reduction::kSum}},
          {{{{}}, {{}}}, MseAttrs{}, 1, 4}};
}

}  // namespace

namespace ops {

extern const OpDef cross_entropy{
    .name = "cross_entropy",
    .doc =
        "-sum(target * log_softmax(logits)) of [n, c] logits and [n] labels or [n, c] "
        "probabilities",
    .precision = {.cast_mask = 0,
                  .reason = "reads any dtype and computes its f32 loss in f32: casting 16-bit "
                            "logits up would not change it, casting f32 logits down would"},
    .saves = {.inputs = 0b11, .outputs = 0b10},
    .infer = infer_cross_entropy,
    .backward = cross_entropy_backward,
    .samples = cross_entropy_samples,
    .errors = cross_entropy_errors,
    .ulps = 8,
};

extern const OpDef cross_entropy_grad{
    .name = "cross_entropy_grad",
    .doc = "grad * (softmax(logits) * sum(target) - target), from what cross_entropy kept of rows",
    .precision = {.cast_mask = 0b0110,
                  .reason = "part of a backward pass, which runs in its forward's dtype"},
    .infer =
        [](Infer& infer) {
          check_logits_and_labels(infer, 1);
          infer.output_like(1);
        },
    .samples = []() -> std::vector<Sample> {
      // Rows of statistics like those of cross_entropy: probabilities stay below e.
      const SampleInput logits{{5, 10}, -4, 1};
      const SampleInput rows{{5, 2}, 0, 1};
      const SampleInput labels{{5}, 0, 10, true};
      return {
          {{{{}}, logits, labels, rows}, CrossEntropyAttrs{}, 10, 4},
          {{{{5}}, logits, labels, rows}, CrossEntropyAttrs{0.1, Reduction::kNone}, 10, 4},
          {{{{}}, logits, {{5, 10}, 0, 1}, rows}, CrossEntropyAttrs{0.1, Reduction::kSum}, 10, 30}};
    },
    .ulps = 8,
};

extern const OpDef mse_loss{
    .name = "mse_loss",
    .doc = "(prediction - target)^2, averaged, summed, or of every element",
    .precision = {.lower = PrecisionClass::kFloat32,
                  .reason = "squares of differences of 256 or more leave f16's range, and rounding "
                            "targets to 16 bits changes them"},
    .saves = {.inputs = 0b11},
    .promote = 0b11,
    .infer = infer_mse,
    .backward = mse_backward,
    .samples = mse_samples,
    .errors = []() -> std::vector<ErrorSample> {
      return {{{{{2, 3}}, {{3}}}, MseAttrs{}, "the prediction has shape [2, 3], the target [3]"},
              {{{{0}}, {{0}}}, MseAttrs{}, "there is nothing to average: the shape is [0]"}};
    },
    .ulps = 4,
};

extern const OpDef mse_loss_grad{
    .name = "mse_loss_grad",
    .doc = "2 * (prediction - target) * grad, divided by the number of elements for a mean",
    .precision = {.cast_mask = 0b110,
                  .reason = "part of a backward pass, which runs in its forward's dtype"},
    .infer =
        [](Infer& infer) {
          infer.check_same_dtype(1, 2);
          infer.output_like(1);
        },
    .samples = []() -> std::vector<Sample> {
      return {{{{{}}, {{3, 7}}, {{3, 7}}}, MseAttrs{}, 1, 4},
              {{{{2, 3, 4, 5}}, {{2, 3, 4, 5}}, {{2, 3, 4, 5}}}, MseAttrs{Reduction::kNone}, 1, 4}};
    },
    .ulps = 4,
};

}  // namespace ops

namespace {

Tensor cross_entropy_grad(const Tensor& grad, const Tensor& logits, const Tensor& labels,
                          const Tensor& rows, const CrossEntropyAttrs& attrs) {
  return call_one(ops::cross_entropy_grad, {&grad, &logits, &labels, &rows}, attrs);
}

Tensor mse_grad(const Tensor& grad, const Tensor& prediction, const Tensor& target,
                const MseAttrs& attrs) {
  return call_one(ops::mse_loss_grad, {&grad, &prediction, &target}, attrs);
}

}  // namespace

Tensor mse_loss(const Tensor& prediction, const Tensor& target, Reduction reduction) {
  return call_one(ops::mse_loss, {&prediction, &target}, MseAttrs{reduction});
}

}  // namespace mezzo
