#include "mezzo/ops/softmax.h"

#include "mezzo/ops/arithmetic.h"
#include "mezzo/ops/axis_attrs.h"
#include "mezzo/ops/dispatcher/call.h"
#include "mezzo/ops/dispatcher/sample.h"
#include "mezzo/ops/pointwise.h"
#include "mezzo/ops/reduce.h"

namespace mezzo {
namespace {

void infer_softmax(Infer& infer) {
  infer.check_floating(0, "x");
  normalize_axis(infer.attrs<AxisAttrs>().axis, infer.shape(0).rank(), infer.op());
  infer.output_like(0);
}

void infer_softmax_grad(Infer& infer) {
  infer.check_same_dtype(0, 1);
  infer.check(infer.shape(0) == infer.shape(1), "the gradient has shape ", infer.shape(0),
              ", the output ", infer.shape(1), ". Give both the same shape");
  normalize_axis(infer.attrs<AxisAttrs>().axis, infer.shape(1).rank(), infer.op());
  infer.output_like(1);
}

// The same formula as differentiable operations.
Tensor softmax_grad_in_ops(const Tensor& grad, const Tensor& y, std::int64_t axis) {
  return y * (grad - mezzo::sum(grad * y, {axis}, true));
}

Tensor log_softmax_grad_in_ops(const Tensor& grad, const Tensor& y, std::int64_t axis) {
  return grad - mezzo::exp(y) * mezzo::sum(grad, {axis}, true);
}

std::vector<Sample> axis_samples(std::size_t inputs) {
  const auto sample = [inputs](const Shape& shape, std::int64_t axis, std::int64_t terms) {
    return Sample{std::vector<SampleInput>(inputs, SampleInput{shape, -3, 3}), AxisAttrs{axis},
                  terms, inputs == 1 ? 1.0 : 9.0};
  };
  return {sample({5, 10}, 1, 10),       sample({3, 1}, -1, 1),       sample({33, 67}, 0, 33),
          sample({2, 3, 4, 5}, 1, 3),   sample({2, 3, 4, 5}, -1, 5), sample({2, 19, 4, 5}, 2, 4),
          sample({2, 40, 1, 1}, 1, 40), sample({0, 3}, 1, 1)};
}

std::vector<ErrorSample> axis_errors() {
  return {{{{{2, 3}}}, AxisAttrs{2}, "axis out of range: 2 for a tensor of rank 2"},
          {{{{2, 3}, 0, 3, true}}, AxisAttrs{}, "must be floating-point"}};
}

}  // namespace

namespace ops {

extern const OpDef softmax{
    .name = "softmax",
    .doc = "exp(x - max) / sum along one axis",
    .precision = {.lower = PrecisionClass::kFloat32,
                  .reason =
                      "probabilities span many binades: in 16 bits they no longer add up to 1, "
                      "and f16 loses those below 6e-8"},
    .saves = {.outputs = 0b1},
    .infer = infer_softmax,
    .backward =
        [](Backward& ctx) {
          const std::int64_t axis = ctx.attrs<AxisAttrs>().axis;
          ctx.set(0, ctx.create_graph() ? softmax_grad_in_ops(ctx.grad(), ctx.output(), axis)
                                        : mezzo::softmax_grad(ctx.grad(), ctx.output(), axis));
        },
    .samples = [] { return axis_samples(1); },
    .errors = axis_errors,
    .ulps = 8,
};

extern const OpDef log_softmax{
    .name = "log_softmax",
    .doc = "x - max - log(sum(exp(x - max))) along one axis",
    .precision = {.lower = PrecisionClass::kFloat32,
                  .reason =
                      "a loss is read from it: in bf16 every log-probability near -5 is off by "
                      "up to 0.016"},
    .saves = {.outputs = 0b1},
    .infer = infer_softmax,
    .backward =
        [](Backward& ctx) {
          const std::int64_t axis = ctx.attrs<AxisAttrs>().axis;
          ctx.set(0, ctx.create_graph() ? log_softmax_grad_in_ops(ctx.grad(), ctx.output(), axis)
                                        : mezzo::log_softmax_grad(ctx.grad(), ctx.output(), axis));
        },
    .samples = [] { return axis_samples(1); },
    .errors = axis_errors,
    .ulps = 8,
};

extern const OpDef softmax_grad{
    .name = "softmax_grad",
    .doc = "y * (grad - sum(grad * y)) along one axis: the gradient of softmax",
    .precision = {.reason = "part of a backward pass, which runs in its forward's dtype"},
    .saves = {.inputs = 0b11},
    .infer = infer_softmax_grad,
    .backward =
        [](Backward& ctx) {
          const std::int64_t axis = ctx.attrs<AxisAttrs>().axis;
          const Tensor y = ctx.input(1);
          const Tensor inner = mezzo::sum(ctx.grad() * y, {axis}, true);
          // With s = sum(grad * y): the gradient with respect to grad is the same map, as the
          // Jacobian is symmetric.
          if (ctx.needs(0)) ctx.set(0, y * (ctx.grad() - inner));
          if (ctx.needs(1)) {
            const Tensor grad = ctx.input(0);
            ctx.set(1, ctx.grad() * (grad - mezzo::sum(grad * y, {axis}, true)) - grad * inner);
          }
        },
    .samples = [] { return axis_samples(2); },
    .ulps = 8,
};

extern const OpDef log_softmax_grad{
    .name = "log_softmax_grad",
    .doc = "grad - exp(y) * sum(grad) along one axis: the gradient of log_softmax",
    .precision = {.reason = "part of a backward pass, which runs in its forward's dtype"},
    .saves = {.inputs = 0b11},
    .infer = infer_softmax_grad,
    .backward =
        [](Backward& ctx) {
          const std::int64_t axis = ctx.attrs<AxisAttrs>().axis;
          const Tensor scaled = ctx.grad() * mezzo::exp(ctx.input(1));
          if (ctx.needs(0)) ctx.set(0, ctx.grad() - mezzo::sum(scaled, {axis}, true));
          if (ctx.needs(1)) ctx.set(1, -(scaled * mezzo::sum(ctx.input(0), {axis}, true)));
        },
    .samples =
        [] {
          std::vector<Sample> samples = axis_samples(2);
          for (Sample& sample : samples) sample.inputs[1] = {sample.inputs[1].shape, -3, 0};
          return samples;
        },
    .ulps = 8,
};

}  // namespace ops

Tensor softmax(const Tensor& x, std::int64_t axis) {
  return call_one(ops::softmax, {&x}, AxisAttrs{axis});
}
Tensor log_softmax(const Tensor& x, std::int64_t axis) {
  return call_one(ops::log_softmax, {&x}, AxisAttrs{axis});
}
Tensor softmax_grad(const Tensor& grad, const Tensor& y, std::int64_t axis) {
  return call_one(ops::softmax_grad, {&grad, &y}, AxisAttrs{axis});
}
Tensor log_softmax_grad(const Tensor& grad, const Tensor& y, std::int64_t axis) {
  return call_one(ops::log_softmax_grad, {&grad, &y}, AxisAttrs{axis});
}

}  // namespace mezzo
