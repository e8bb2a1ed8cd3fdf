#include "mezzo/ops/recurrent_common.h"

#include <utility>

#include "mezzo/ops/arithmetic.h"
#include "mezzo/ops/cast.h"
#include "mezzo/ops/compare.h"
#include "mezzo/ops/matmul.h"
#include "mezzo/ops/reduce.h"
#include "mezzo/ops/select.h"
#include "mezzo/ops/shape_ops.h"

namespace mezzo {
namespace {

constinit thread_local bool step_by_step = false;

void check_state(const Infer& infer, std::size_t i, const char* name) {
  if (!infer.has(i)) return;
  const DType wanted = state_dtype(infer.dtype(0));
  const Shape shape{infer.shape(0)[0], infer.shape(1)[1]};
  infer.check(infer.shape(i) == shape && infer.dtype(i) == wanted, "the initial ", name,
              " state must be ", wanted, shape, " for gates of shape ", infer.shape(0), ", it is ",
              infer.input(i), ". Give a state per sequence, or none for zeros");
}

}  // namespace

StepByStep::StepByStep() : scope_(step_by_step, true) {}
bool StepByStep::is_on() { return step_by_step; }

void check_recurrent(const Infer& infer, const RecurrentInputs& inputs) {
  infer.check_floating(0, "gates");
  infer.check_rank(0, 3, "gates");
  infer.check_rank(1, 2, "weight");
  const Shape& gates = infer.shape(0);
  const Shape& weight = infer.shape(1);
  const std::int64_t h = weight[1];
  infer.check(h > 0 && weight[0] == inputs.gates * h, "the weight must have the shape [",
              inputs.gates, " h, h], it has ", weight, ". Give the rows of ", inputs.gates,
              " gates");
  infer.check(gates[2] == weight[0], "gates of shape ", gates, " do not fit a weight of shape ",
              weight, ". Their last size must be ", weight[0]);
  infer.check(gates[1] > 0, "gates of shape ", gates, " have no steps. Give at least one");
  if (infer.has(2)) {
    const DType wanted = state_dtype(infer.dtype(0));
    infer.check(infer.shape(2) == Shape{weight[0]} && infer.dtype(2) == wanted, "the bias must be ",
                wanted, Shape{weight[0]}, ", it is ", infer.input(2),
                ". Give one value per row of the weight");
  }
  check_state(infer, inputs.hidden, "hidden");
  if (inputs.cell != 0) check_state(infer, inputs.cell, "cell");
  if (infer.has(inputs.lengths)) {
    infer.check(infer.shape(inputs.lengths) == Shape{gates[0]} &&
                    infer.dtype(inputs.lengths) == DType::kI64,
                "the lengths must be i64", Shape{gates[0]}, ", they are ",
                infer.input(inputs.lengths), ". Give one for each sequence");
  }
}

RecurrentSteps::RecurrentSteps(std::int64_t count, Tensor lengths, bool reverse)
    : count_(count), lengths_(std::move(lengths)), reverse_(reverse) {
  if (lengths_.defined()) lengths_ = reshape(lengths_, {lengths_.shape()[0], 1});
}

Tensor RecurrentSteps::choose(std::int64_t position, const Tensor& now,
                              const Tensor& otherwise) const {
  if (!lengths_.defined()) return now;
  const auto p = static_cast<double>(position);
  if (!otherwise.defined()) return masked_fill(now, le(lengths_, p), 0);
  return where(gt(lengths_, p), now, otherwise);
}

Tensor RecurrentSteps::before(std::int64_t position, const Tensor& x, const Tensor& initial) const {
  const std::int64_t prior = reverse_ ? position + 1 : position - 1;
  if (prior < 0 || prior >= count_) return initial;
  const Tensor there = at_step(x, prior);
  // Past the end of a sequence, x is 0.
  return reverse_ && initial.defined() ? choose(prior, there, initial) : there;
}

Tensor at_step(const Tensor& x, std::int64_t position) {
  if (!x.defined()) return {};
  return reshape(slice(x, 1, position, position + 1), {x.shape()[0], x.shape()[2]});
}

Tensor gate_of(const Tensor& x, std::int64_t gate, std::int64_t h) {
  return x.defined() ? slice(x, 1, gate * h, (gate + 1) * h) : Tensor();
}

Tensor join_steps(const std::vector<Tensor>& steps, DType dtype) {
  std::vector<Tensor> parts;
  parts.reserve(steps.size());
  for (const Tensor& step : steps) {
    parts.push_back(reshape(cast(step, dtype), {step.shape()[0], 1, step.shape()[1]}));
  }
  return parts.size() == 1 ? parts[0] : cat(parts, 1);
}

Tensor sum_of_defined(const Tensor& a, const Tensor& b) {
  if (!a.defined()) return b;
  return b.defined() ? a + b : a;
}

Tensor state_product(const Tensor& h, const RecurrentWeights& weights, DType dtype) {
  if (!h.defined()) return weights.bias;
  return widen(linear(cast(h, dtype), weights.weight, weights.bias));
}

Tensor input_if_given(const Backward& ctx, std::size_t i) {
  return ctx.has_input(i) ? ctx.input(i) : Tensor();
}

Tensor rows_of_steps(const Tensor& x) {
  return reshape(x, {x.shape()[0] * x.shape()[1], x.shape()[2]});
}

void set_weight_grads(Backward& ctx, const Tensor& sums, const Tensor& previous) {
  if (!ctx.needs(1) && !ctx.needs(2)) return;
  const Tensor rows = rows_of_steps(sums);
  if (ctx.needs(1)) {
    ctx.set(1, matmul(rows, rows_of_steps(previous),
                      {.transpose_a = true, .f32_result = ctx.has_wide_grad(1)}));
  }
  if (ctx.needs(2)) ctx.set(2, sum(rows, {0}, false, ctx.grad_dtype(2)));
}

}  // namespace mezzo
