#include "mezzo/ops/binary_cross_entropy.h"

#include "mezzo/ops/arithmetic.h"
#include "mezzo/ops/cast.h"
#include "mezzo/ops/dispatcher/call.h"
#include "mezzo/ops/dispatcher/sample.h"
#include "mezzo/ops/pointwise.h"
#include "mezzo/ops/reduced_loss.h"
#include "mezzo/ops/relu.h"
#include "mezzo/ops/shape_ops.h"

namespace mezzo {
namespace {

void infer_loss(Infer& infer) {
  infer.check_floating(0, "the prediction");
  infer.check_floating(1, "the target");
  infer.check(infer.shape(0) == infer.shape(1), "the prediction has shape ", infer.shape(0),
              ", the target ", infer.shape(1), ". Give both the same shape");
  // The elements of a loss are summed next, so they are not rounded to 16 bits first.
  const bool wide = infer.dtype(0) == DType::kF64;
  infer.output(infer.shape(0), wide ? DType::kF64 : DType::kF32, infer.input(0).format());
}

// Keeps the quotient of the gradient finite where p is 0 or 1, as in PyTorch.
constexpr double kSmallest = 1e-12;

std::vector<Sample> samples_between(double low, double high) {
  const auto sample = [=](const Shape& shape) {
    return Sample{{{shape, low, high}, {shape, 0, 1}}, {}, 4, 8};
  };
  return {sample({2, 3, 4, 5}), sample({37}), sample({}), sample({0, 4})};
}

std::vector<ErrorSample> shape_errors() {
  return {{{{{2, 3}}, {{3}}}, {}, "the prediction has shape [2, 3], the target [3]"}};
}

void check_pos_weight(const Tensor& logits, const Tensor& targets, const Tensor& weight) {
  constexpr const char* kOp = "binary_cross_entropy_with_logits";
  check_arg(logits.shape() == targets.shape(), kOp, "the prediction has shape ", logits.shape(),
            ", the target ", targets.shape(), ". Give both the same shape");
  check_arg(is_floating(weight.dtype()) &&
                broadcast(weight.shape(), logits.shape(), kOp) == logits.shape(),
            kOp, "pos_weight is ", weight, ", and the logits are ", logits,
            ". Give floating-point weights of a shape that broadcasts to theirs");
}

}  // namespace

namespace ops {

extern const OpDef binary_cross_entropy{
    .name = "binary_cross_entropy",
    .doc = "-(t log p + (1 - t) log(1 - p)) of probabilities and targets, element by element",
    .precision = {.lower = PrecisionClass::kRefuse,
                  .reason = "a probability near 1 is 1 in 16 bits, and its gradient 1 / (1 - p) "
                            "leaves f16's range; use binary_cross_entropy_with_logits"},
    .saves = {.inputs = 0b11},
    .promote = 0b11,
    .infer = infer_loss,
    .backward =
        [](Backward& ctx) {
          // In f16, 1e-12 is 0, and in either 16-bit type 1 - p loses its digits.
          const Tensor p = widen(ctx.input(0));
          const Tensor target = widen(ctx.input(1));
          const Tensor spread =
              mezzo::relu(p * (1.0 - p) - kSmallest) + kSmallest;  // max(p * (1 - p), kSmallest)
          if (ctx.needs(0)) ctx.set(0, ctx.grad() * (p - target) / spread);
          if (ctx.needs(1)) {
            ctx.set(1, ctx.grad() * (mezzo::log(1.0 - p) - mezzo::log(p)));
          }
        },
    .samples = [] { return samples_between(0.05, 0.95); },
    .errors = shape_errors,
    .ulps = 16,
};

extern const OpDef binary_cross_entropy_with_logits{
    .name = "binary_cross_entropy_with_logits",
    .doc = "max(x, 0) - x t + log(1 + exp(-|x|)) of logits and targets, element by element",
    .precision = {.lower = PrecisionClass::kFloat32,
                  .reason = "rounding targets to 16 bits changes them, and the difference of two "
                            "losses is smaller than their rounding"},
    .saves = {.inputs = 0b11},
    .promote = 0b11,
    .infer = infer_loss,
    .backward =
        [](Backward& ctx) {
          const Tensor x = ctx.input(0);
          if (ctx.needs(0)) {
            // If a probability near its target were rounded to 16 bits first, nothing would remain
            // of the difference.
            const Tensor wide = is_lower(x.dtype()) ? x.astype(DType::kF32) : x;
            const Tensor grad = ctx.grad() * (mezzo::sigmoid(wide) - ctx.input(1));
            ctx.set(0, grad.astype(ctx.grad_dtype(0)));
          }
          if (ctx.needs(1)) ctx.set(1, -(ctx.grad() * x));
        },
    .samples = [] { return samples_between(-8, 8); },
    .errors = shape_errors,
    .ulps = 16,
};

}  // namespace ops

Tensor binary_cross_entropy(const Tensor& probabilities, const Tensor& targets,
                            Reduction reduction) {
  return reduced_loss("binary_cross_entropy",
                      call_one(ops::binary_cross_entropy, {&probabilities, &targets}), reduction);
}

namespace {

// The loss where every target is `answer`.
Tensor loss_of_answer(const Tensor& logits, double answer) {
  const Tensor target =
      expand(full({}, answer, DType::kF32, Format::kContiguous, logits.device()), logits.shape());
  return call_one(ops::binary_cross_entropy_with_logits, {&logits, &target});
}

// The weighted sum of two losses, each exact where it is small. The usual form of a single loss has
// the logit in a difference.
Tensor weighted_answers(const Tensor& logits, const Tensor& targets, const Tensor& pos_weight) {
  check_pos_weight(logits, targets, pos_weight);
  const Tensor yes = loss_of_answer(logits, 1);
  const Tensor no = loss_of_answer(logits, 0);
  const WithoutPrecisionHook outside;  // this is part of the loss: compute in f32
  const Tensor target = targets.astype(yes.dtype());
  return target * pos_weight.astype(yes.dtype()) * yes + (1.0 - target) * no;
}

}  // namespace

Tensor binary_cross_entropy_with_logits(const Tensor& logits, const Tensor& targets,
                                        Reduction reduction, const Tensor& pos_weight) {
  const Tensor losses = pos_weight.defined()
                            ? weighted_answers(logits, targets, pos_weight)
                            : call_one(ops::binary_cross_entropy_with_logits, {&logits, &targets});
  return reduced_loss("binary_cross_entropy_with_logits", losses, reduction);
}

}  // namespace mezzo
