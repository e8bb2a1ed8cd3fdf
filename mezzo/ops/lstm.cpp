#include <array>

#include "mezzo/ops/arithmetic.h"
#include "mezzo/ops/cast.h"
#include "mezzo/ops/dispatcher/call.h"
#include "mezzo/ops/dispatcher/sample.h"
#include "mezzo/ops/indexing.h"
#include "mezzo/ops/matmul.h"
#include "mezzo/ops/pointwise.h"
#include "mezzo/ops/recurrent.h"
#include "mezzo/ops/recurrent_common.h"
#include "mezzo/ops/shape_ops.h"

namespace mezzo {
namespace {

constexpr RecurrentInputs kLstmInputs{kLstmGates, LstmInput::kHidden, LstmInput::kCell,
                                      LstmInput::kLengths};

void infer_lstm(Infer& infer) {
  check_recurrent(infer, kLstmInputs);
  infer.check_same_dtype(LstmInput::kGates, LstmInput::kWeight);
  const Shape& gates = infer.shape(LstmInput::kGates);
  const DType dtype = infer.dtype(LstmInput::kGates);
  const std::int64_t h = infer.shape(LstmInput::kWeight)[1];
  infer.output({gates[0], gates[1], h}, dtype);
  infer.output({2, gates[0], h}, state_dtype(dtype));         // h and c after the last step
  infer.output(gates, dtype);                                 // i, f, g, o
  infer.output({gates[0], gates[1], h}, state_dtype(dtype));  // c
}

void infer_lstm_grad(Infer& infer) {
  const Shape& gates = infer.shape(LstmGradInput::kActivated);
  const Shape& sequence = infer.shape(LstmGradInput::kSequence);
  const DType dtype = infer.dtype(LstmGradInput::kActivated);
  infer.check_same_dtype(LstmGradInput::kActivated, LstmGradInput::kWeight);
  infer.output(gates, dtype);
  infer.output({2, sequence[0], sequence[2]}, state_dtype(dtype));
  infer.output(sequence, dtype);
}

struct LstmGrads {
  Tensor gates;     // [b, t, 4h]
  Tensor hidden;    // [b, h], of the initial state
  Tensor cell;      // [b, h]
  Tensor previous;  // [b, t, h]: the state h before every step
};

Tensor pick_state(const Tensor& states, std::int64_t i) {
  return reshape(slice(states, 0, i, i + 1), {states.shape()[1], states.shape()[2]});
}

// The gradient of one step.
struct LstmStepGrads {
  Tensor gates;  // [b, 4h]
  Tensor cell;   // of c before the step
};

// activated and grad_activated: [b, 4h]; before: c before the step, undefined for zeros; dh and dc:
// the gradients of h and c after it.
LstmStepGrads lstm_step_grads(const std::array<Tensor, kLstmGates>& activated,
                              const std::array<Tensor, kLstmGates>& grad_activated, const Tensor& c,
                              const Tensor& before, const Tensor& dh, const Tensor& dc) {
  const auto& [i, f, g, o] = activated;
  const Tensor y = mezzo::tanh(c);
  const Tensor grad_o = sum_of_defined(dh * y, grad_activated[3]);
  const Tensor grad_c = sum_of_defined(tanh_grad(dh * o, y), dc);
  const Tensor grad_i = sum_of_defined(grad_c * g, grad_activated[0]);
  const Tensor grad_f =
      sum_of_defined(before.defined() ? grad_c * before : grad_c * 0.0, grad_activated[1]);
  const Tensor grad_g = sum_of_defined(grad_c * i, grad_activated[2]);
  return {cat({sigmoid_grad(grad_i, i), sigmoid_grad(grad_f, f), tanh_grad(grad_g, g),
               sigmoid_grad(grad_o, o)},
              1),
          grad_c * f};
}

std::array<Tensor, kLstmGates> lstm_gates_at(const Tensor& x, std::int64_t position,
                                             std::int64_t h) {
  std::array<Tensor, kLstmGates> gates;
  if (!x.defined()) return gates;
  const Tensor all = widen(at_step(x, position));
  for (std::int64_t gate = 0; gate < kLstmGates; ++gate) {
    gates[static_cast<std::size_t>(gate)] = gate_of(all, gate, h);
  }
  return gates;
}

// Gradients from differentiable operations, for gradients of gradients.
LstmGrads lstm_grads_by_ops(Backward& ctx) {
  const Tensor activated = ctx.output(LstmOutput::kActivated);
  const Tensor sequence = ctx.output(LstmOutput::kSequence);
  const Tensor cells = ctx.output(LstmOutput::kCells);
  const Tensor weight = ctx.input(LstmInput::kWeight);
  const Tensor hidden = input_if_given(ctx, LstmInput::kHidden);
  const Tensor cell = input_if_given(ctx, LstmInput::kCell);
  const std::int64_t h = weight.shape()[1];
  const RecurrentSteps steps(sequence.shape()[1], input_if_given(ctx, LstmInput::kLengths),
                             ctx.attrs<RecurrentAttrs>().reverse);
  const Tensor& grad_final = ctx.grad(LstmOutput::kFinal);
  const Tensor nothing =
      zeros({sequence.shape()[0], h}, cells.dtype(), Format::kContiguous, cells.device());
  Tensor dh = grad_final.defined() ? pick_state(grad_final, 0) : nothing;
  Tensor dc = grad_final.defined() ? pick_state(grad_final, 1) : nothing;
  std::vector<Tensor> gates(static_cast<std::size_t>(steps.count()));
  std::vector<Tensor> previous(gates.size());
  for (std::int64_t k = steps.count(); k-- > 0;) {
    const std::int64_t t = steps.at(k);
    const Tensor dh_now = sum_of_defined(dh, widen(at_step(ctx.grad(LstmOutput::kSequence), t)));
    const Tensor dc_now = sum_of_defined(dc, at_step(ctx.grad(LstmOutput::kCells), t));
    const LstmStepGrads step = lstm_step_grads(
        lstm_gates_at(activated, t, h), lstm_gates_at(ctx.grad(LstmOutput::kActivated), t, h),
        at_step(cells, t), steps.before(t, cells, cell), dh_now, dc_now);
    const Tensor before = steps.before(t, sequence, hidden);
    const auto at = static_cast<std::size_t>(t);
    gates[at] = steps.choose(t, step.gates, {});
    previous[at] = before.defined() ? steps.choose(t, before, {}) : nothing;
    const Tensor back = widen(matmul(cast(step.gates, weight.dtype()), weight));
    dh = steps.choose(t, back, dh);
    dc = steps.choose(t, step.cell, dc);
  }
  return {join_steps(gates, activated.dtype()), dh, dc, join_steps(previous, activated.dtype())};
}

LstmGrads fused_lstm_grads(Backward& ctx);

void lstm_backward(Backward& ctx) {
  const LstmGrads grads = ctx.create_graph() ? lstm_grads_by_ops(ctx) : fused_lstm_grads(ctx);
  if (ctx.needs(LstmInput::kGates)) ctx.set(LstmInput::kGates, grads.gates);
  set_weight_grads(ctx, grads.gates, grads.previous);
  if (ctx.needs(LstmInput::kHidden)) ctx.set(LstmInput::kHidden, grads.hidden);
  if (ctx.needs(LstmInput::kCell)) ctx.set(LstmInput::kCell, grads.cell);
}

double lstm_flops(Inputs inputs, std::span<const Tensor> outputs, const Attrs& /*attrs*/) {
  const double steps = static_cast<double>(outputs[0].shape()[0] * outputs[0].shape()[1]);
  return 2 * steps * static_cast<double>(inputs[LstmInput::kWeight]->numel());
}

double lstm_grad_flops(Inputs inputs, std::span<const Tensor> outputs, const Attrs& /*attrs*/) {
  const double steps = static_cast<double>(outputs[0].shape()[0] * outputs[0].shape()[1]);
  return 2 * steps * static_cast<double>(inputs[LstmGradInput::kWeight]->numel());
}

struct LstmSampleSizes {
  std::int64_t b, t, h;
};

Sample lstm_sample(LstmSampleSizes s, bool whole, bool reverse) {
  const SampleInput none{.shape = {}, .absent = true};
  const SampleInput state{{s.b, s.h}};
  Sample sample{{{{s.b, s.t, 4 * s.h}, -1.5, 1.5}, {{4 * s.h, s.h}, -0.5, 0.5}, {{4 * s.h}}},
                RecurrentAttrs{reverse},
                s.h + 1};
  sample.inputs[LstmInput::kBias].absent = whole;
  sample.inputs.push_back(whole ? none : state);
  sample.inputs.push_back(whole ? none : state);
  SampleInput lengths{{s.b}, 0, static_cast<double>(s.t + 1), true};
  sample.inputs.push_back(whole ? none : lengths);
  sample.magnitude = 2;
  // A state that f32 and double put on different sides of a tie is another factor of products.
  sample.lower_roundings = 2;
  return sample;
}

Sample lstm_grad_sample(LstmSampleSizes s, bool whole, bool reverse, bool only_final = false) {
  const SampleInput none{.shape = {}, .absent = true};
  const SampleInput sequence{{s.b, s.t, s.h}};
  const SampleInput state{{s.b, s.h}};
  const SampleInput lengths{{s.b}, 0, static_cast<double>(s.t + 1), true};
  return {{{{4 * s.h, s.h}, -0.5, 0.5},
           sequence,
           {{s.b, s.t, 4 * s.h}, 0.1, 0.9},
           sequence,
           only_final ? none : sequence,
           whole ? none : SampleInput{{2, s.b, s.h}},
           whole ? none : SampleInput{{s.b, s.t, 4 * s.h}},
           whole ? none : sequence,
           whole ? none : state,
           whole ? none : state,
           whole ? none : lengths},
          RecurrentAttrs{reverse},
          4 * s.h,
          2,
          2};
}

}  // namespace

namespace ops {

extern const OpDef lstm{
    .name = "lstm",
    .doc =
        "the states h [b, t, h] of a long short-term memory with gates [b, t, 4h] from the input, "
        "and weight [4h, h]; also the last h and c [2, b, h], the gates and every c",
    .precision = {.lower = PrecisionClass::kLower,
                  .cast_mask = 1U << LstmInput::kGates | 1U << LstmInput::kWeight,
                  .reason = "products gain from 16 bits; c is f32 inside, because it is added to "
                            "at every step, and sums and gates are f32, too"},
    .saves = {.inputs = 1U << LstmInput::kWeight | 1U << LstmInput::kHidden |
                        1U << LstmInput::kCell | 1U << LstmInput::kLengths,
              .outputs = 1U << LstmOutput::kSequence | 1U << LstmOutput::kActivated |
                         1U << LstmOutput::kCells},
    .promote = 1U << LstmInput::kGates | 1U << LstmInput::kWeight,
    .infer = infer_lstm,
    .flops = lstm_flops,
    .backward = lstm_backward,
    .grad_inputs = 0b11111,
    .grad_outputs = 0b1111,
    .samples = []() -> std::vector<Sample> {
      return {lstm_sample({2, 3, 5}, true, false),   lstm_sample({3, 4, 17}, false, false),
              lstm_sample({5, 3, 8}, false, true),   lstm_sample({1, 5, 1}, true, true),
              lstm_sample({13, 2, 3}, false, false), lstm_sample({0, 2, 3}, true, false)};
    },
    .errors = []() -> std::vector<ErrorSample> {
      return {
          {{{{2, 3, 8}}, {{8, 3}}}, RecurrentAttrs{}, "the weight must have the shape [4 h, h]"},
          {{{{2, 3, 12}}, {{8, 2}}}, RecurrentAttrs{}, "Their last size must be 8"},
          {{{{2, 0, 8}}, {{8, 2}}}, RecurrentAttrs{}, "have no steps"},
          {{{{2, 3, 8}}, {{8, 2}}, {{4}}}, RecurrentAttrs{}, "the bias must be f32[8]"},
          {{{{2, 3, 8}}, {{8, 2}}, {{8}}, {{2, 3}}},
           RecurrentAttrs{},
           "the initial hidden state must be f32[2, 2]"},
          {{{{2, 3, 8}}, {{8, 2}}, {{8}}, {{2, 2}}, {{2, 2}}, {{3}, 0, 3, true}},
           RecurrentAttrs{},
           "the lengths must be i64[2]"},
          {{{{2, 3, 8}}, {{8, 2}}, {{8}}, {{2, 2}}, {{2, 2}}, {{2}, 4, 5, true}},
           RecurrentAttrs{},
           "length 4 of sequence 0 is outside [0, 3]"}};
    },
    .ulps = 16,
};

extern const OpDef lstm_grad{
    .name = "lstm_grad",
    .doc =
        "the gradients of lstm: of the gates, of the initial h and c [2, b, h]; and the state h "
        "before every step, with which the gradient of the weight is one product",
    .precision = {.cast_mask = 1U << LstmGradInput::kGradSequence |
                               1U << LstmGradInput::kGradActivated | 1U << LstmGradInput::kWeight |
                               1U << LstmGradInput::kSequence | 1U << LstmGradInput::kActivated,
                  .reason = "part of a backward pass, which runs in its forward's dtype; what is "
                            "passed from step to step is f32"},
    .infer = infer_lstm_grad,
    .flops = lstm_grad_flops,
    .samples = []() -> std::vector<Sample> {
      return {lstm_grad_sample({2, 3, 5}, true, false), lstm_grad_sample({3, 4, 17}, false, false),
              lstm_grad_sample({5, 3, 8}, false, true), lstm_grad_sample({1, 2, 1}, true, true),
              lstm_grad_sample({2, 2, 3}, false, false, true)};
    },
    .ulps = 16,
};

}  // namespace ops

namespace {

LstmGrads fused_lstm_grads(Backward& ctx) {
  const Tensor weight = ctx.input(LstmInput::kWeight);
  const Tensor sequence = ctx.output(LstmOutput::kSequence);
  const Tensor activated = ctx.output(LstmOutput::kActivated);
  const Tensor cells = ctx.output(LstmOutput::kCells);
  const Tensor hidden = input_if_given(ctx, LstmInput::kHidden);
  const Tensor cell = input_if_given(ctx, LstmInput::kCell);
  const Tensor lengths = input_if_given(ctx, LstmInput::kLengths);
  const Outputs outputs =
      call(ops::lstm_grad,
           {&weight, &sequence, &activated, &cells, &ctx.grad(LstmOutput::kSequence),
            &ctx.grad(LstmOutput::kFinal), &ctx.grad(LstmOutput::kActivated),
            &ctx.grad(LstmOutput::kCells), &hidden, &cell, &lengths},
           ctx.attrs<RecurrentAttrs>());
  const Tensor& initial = outputs[LstmGradOutput::kInitial];
  return {outputs[LstmGradOutput::kGates], pick_state(initial, 0), pick_state(initial, 1),
          outputs[LstmGradOutput::kPrevious]};
}

RecurrentResult lstm_by_steps(const Tensor& gates, const RecurrentWeights& weights,
                              const RecurrentOptions& options) {
  const std::int64_t size = weights.weight.shape()[1];
  const RecurrentSteps steps(gates.shape()[1], options.lengths, options.reverse);
  Tensor h = options.hidden;
  Tensor c = options.cell;
  std::vector<Tensor> sequence(static_cast<std::size_t>(steps.count()));
  for (std::int64_t k = 0; k < steps.count(); ++k) {
    const std::int64_t t = steps.at(k);
    const Tensor m = state_product(h, weights, gates.dtype());
    // A region lowers the product only: it would round the state at every step.
    const WithoutPrecisionHook outside;
    const Tensor sums = sum_of_defined(widen(at_step(gates, t)), m);
    const Tensor i = sigmoid(gate_of(sums, 0, size));
    const Tensor f = sigmoid(gate_of(sums, 1, size));
    const Tensor g = tanh(gate_of(sums, 2, size));
    const Tensor o = sigmoid(gate_of(sums, 3, size));
    const Tensor new_c = c.defined() ? f * c + i * g : i * g;
    const Tensor new_h = o * tanh(new_c);
    sequence[static_cast<std::size_t>(t)] = steps.choose(t, new_h, {});
    h = steps.choose(t, new_h, h);
    c = steps.choose(t, new_c, c);
  }
  return {join_steps(sequence, gates.dtype()), h, c};
}

}  // namespace

RecurrentResult lstm(const Tensor& gates, const RecurrentWeights& weights,
                     const RecurrentOptions& options) {
  const Tensor bias = widen(weights.bias);
  RecurrentOptions given = options;
  given.hidden = widen(options.hidden);
  given.cell = widen(options.cell);
  if (options.lengths.defined()) given.lengths = as_indices(options.lengths);
  const std::array<const Tensor*, 6> inputs{&gates,        &weights.weight, &bias,
                                            &given.hidden, &given.cell,     &given.lengths};
  const Attrs attrs = RecurrentAttrs{options.reverse};
  if (StepByStep::is_on()) {
    check_recurrent(Infer("lstm", inputs, attrs), kLstmInputs);
    return lstm_by_steps(gates, {weights.weight, bias}, given);
  }
  const Outputs outputs = call(ops::lstm, inputs, attrs);
  const Tensor& final = outputs[LstmOutput::kFinal];
  return {outputs[LstmOutput::kSequence], pick_state(final, 0), pick_state(final, 1)};
}

}  // namespace mezzo
