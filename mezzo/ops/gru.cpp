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

constexpr RecurrentInputs kGruInputs{kGruGates, GruInput::kHidden, 0, GruInput::kLengths};

void infer_gru(Infer& infer) {
  check_recurrent(infer, kGruInputs);
  infer.check_same_dtype(GruInput::kGates, GruInput::kWeight);
  const Shape& gates = infer.shape(GruInput::kGates);
  const DType dtype = infer.dtype(GruInput::kGates);
  const std::int64_t h = infer.shape(GruInput::kWeight)[1];
  infer.output({gates[0], gates[1], h}, dtype);
  infer.output({gates[0], h}, state_dtype(dtype));          // h after the last step
  infer.output({gates[0], gates[1], kGruKept * h}, dtype);  // r, z, n, m_n
}

void infer_gru_grad(Infer& infer) {
  const Shape& sequence = infer.shape(GruGradInput::kSequence);
  const DType dtype = infer.dtype(GruGradInput::kActivated);
  infer.check_same_dtype(GruGradInput::kActivated, GruGradInput::kWeight);
  const Shape gates{sequence[0], sequence[1], kGruGates * sequence[2]};
  infer.output(gates, dtype);
  infer.output(gates, dtype);
  infer.output({sequence[0], sequence[2]}, state_dtype(dtype));
  infer.output(sequence, dtype);
}

struct GruGrads {
  Tensor gates;     // [b, t, 3h]
  Tensor sums;      // [b, t, 3h]: of the products with the state
  Tensor hidden;    // [b, h], of the initial state
  Tensor previous;  // [b, t, h]: the state before every step
};

// The gradient of one step.
struct GruStepGrads {
  Tensor gates;   // [b, 3h]
  Tensor sums;    // [b, 3h]
  Tensor hidden;  // what reaches the state before the step without the products
};

// kept and grad_kept: [b, 4h]; before: the state before the step; dh: the gradient of the one after
// it.
GruStepGrads gru_step_grads(const Tensor& kept, const Tensor& grad_kept, const Tensor& before,
                            const Tensor& dh) {
  const std::int64_t h = dh.shape()[1];
  const Tensor r = gate_of(kept, 0, h);
  const Tensor z = gate_of(kept, 1, h);
  const Tensor n = gate_of(kept, 2, h);
  const Tensor m = gate_of(kept, 3, h);
  const Tensor grad_n = tanh_grad(sum_of_defined(dh * (1.0 - z), gate_of(grad_kept, 2, h)), n);
  const Tensor grad_z =
      sigmoid_grad(sum_of_defined(dh * (before - n), gate_of(grad_kept, 1, h)), z);
  const Tensor grad_r = sigmoid_grad(sum_of_defined(grad_n * m, gate_of(grad_kept, 0, h)), r);
  const Tensor grad_m = sum_of_defined(grad_n * r, gate_of(grad_kept, 3, h));
  return {cat({grad_r, grad_z, grad_n}, 1), cat({grad_r, grad_z, grad_m}, 1), dh * z};
}

// Gradients from differentiable operations, for gradients of gradients.
GruGrads gru_grads_by_ops(Backward& ctx) {
  const Tensor kept = ctx.output(GruOutput::kActivated);
  const Tensor sequence = ctx.output(GruOutput::kSequence);
  const Tensor weight = ctx.input(GruInput::kWeight);
  const Tensor hidden = input_if_given(ctx, GruInput::kHidden);
  const std::int64_t h = weight.shape()[1];
  const RecurrentSteps steps(sequence.shape()[1], input_if_given(ctx, GruInput::kLengths),
                             ctx.attrs<RecurrentAttrs>().reverse);
  const Tensor nothing = zeros({sequence.shape()[0], h}, state_dtype(sequence.dtype()),
                               Format::kContiguous, sequence.device());
  const Tensor& grad_final = ctx.grad(GruOutput::kFinal);
  Tensor dh = grad_final.defined() ? grad_final : nothing;
  std::vector<Tensor> gates(static_cast<std::size_t>(steps.count()));
  std::vector<Tensor> sums(gates.size());
  std::vector<Tensor> previous(gates.size());
  for (std::int64_t k = steps.count(); k-- > 0;) {
    const std::int64_t t = steps.at(k);
    const Tensor given = steps.before(t, sequence, hidden);
    const Tensor before = given.defined() ? widen(given) : nothing;
    const Tensor now = sum_of_defined(dh, widen(at_step(ctx.grad(GruOutput::kSequence), t)));
    const GruStepGrads step = gru_step_grads(
        widen(at_step(kept, t)), widen(at_step(ctx.grad(GruOutput::kActivated), t)), before, now);
    const auto at = static_cast<std::size_t>(t);
    gates[at] = steps.choose(t, step.gates, {});
    sums[at] = steps.choose(t, step.sums, {});
    previous[at] = steps.choose(t, before, {});
    const Tensor back = widen(matmul(cast(step.sums, weight.dtype()), weight)) + step.hidden;
    dh = steps.choose(t, back, dh);
  }
  return {join_steps(gates, kept.dtype()), join_steps(sums, kept.dtype()), dh,
          join_steps(previous, kept.dtype())};
}

GruGrads fused_gru_grads(Backward& ctx);

void gru_backward(Backward& ctx) {
  const GruGrads grads = ctx.create_graph() ? gru_grads_by_ops(ctx) : fused_gru_grads(ctx);
  if (ctx.needs(GruInput::kGates)) ctx.set(GruInput::kGates, grads.gates);
  set_weight_grads(ctx, grads.sums, grads.previous);
  if (ctx.needs(GruInput::kHidden)) ctx.set(GruInput::kHidden, grads.hidden);
}

double gru_flops_of(const Tensor& weight, const Tensor& output) {
  return 2 * static_cast<double>(output.shape()[0] * output.shape()[1]) *
         static_cast<double>(weight.numel());
}

struct GruSampleSizes {
  std::int64_t b, t, h;
};

Sample gru_sample(GruSampleSizes s, bool whole, bool reverse) {
  const SampleInput none{.shape = {}, .absent = true};
  const SampleInput lengths{{s.b}, 0, static_cast<double>(s.t + 1), true};
  return {{{{s.b, s.t, 3 * s.h}, -1.5, 1.5},
           {{3 * s.h, s.h}, -0.5, 0.5},
           whole ? none : SampleInput{{3 * s.h}},
           whole ? none : SampleInput{{s.b, s.h}},
           whole ? none : lengths},
          RecurrentAttrs{reverse},
          s.h + 1,
          2,
          2};  // a state that f32 and double put on different sides of a tie
}

Sample gru_grad_sample(GruSampleSizes s, bool whole, bool reverse, bool only_final = false) {
  const SampleInput none{.shape = {}, .absent = true};
  const SampleInput sequence{{s.b, s.t, s.h}};
  const SampleInput lengths{{s.b}, 0, static_cast<double>(s.t + 1), true};
  return {{{{3 * s.h, s.h}, -0.5, 0.5},
           sequence,
           {{s.b, s.t, 4 * s.h}, 0.1, 0.9},
           only_final ? none : sequence,
           whole ? none : SampleInput{{s.b, s.h}},
           whole ? none : SampleInput{{s.b, s.t, 4 * s.h}},
           whole ? none : SampleInput{{s.b, s.h}},
           whole ? none : lengths},
          RecurrentAttrs{reverse},
          3 * s.h,
          2,
          2};
}

}  // namespace

namespace ops {

extern const OpDef gru{
    .name = "gru",
    .doc =
        "the states h [b, t, h] of gated recurrent units with gates [b, t, 3h] from the input, and "
        "weight [3h, h]; also the last h [b, h], the gates and the product that enters n",
    .precision = {.lower = PrecisionClass::kLower,
                  .cast_mask = 1U << GruInput::kGates | 1U << GruInput::kWeight,
                  .reason = "products gain from 16 bits; the state is f32 inside, because it "
                            "changes a little at every step, and sums and gates are f32, too"},
    .saves = {.inputs =
                  1U << GruInput::kWeight | 1U << GruInput::kHidden | 1U << GruInput::kLengths,
              .outputs = 1U << GruOutput::kSequence | 1U << GruOutput::kActivated},
    .promote = 1U << GruInput::kGates | 1U << GruInput::kWeight,
    .infer = infer_gru,
    .flops = [](Inputs inputs, std::span<const Tensor> outputs,
                const Attrs&) { return gru_flops_of(*inputs[GruInput::kWeight], outputs[0]); },
    .backward = gru_backward,
    .grad_inputs = 0b1111,
    .grad_outputs = 0b111,
    .samples = []() -> std::vector<Sample> {
      return {gru_sample({2, 3, 5}, true, false),   gru_sample({3, 4, 17}, false, false),
              gru_sample({5, 3, 8}, false, true),   gru_sample({1, 5, 1}, true, true),
              gru_sample({13, 2, 3}, false, false), gru_sample({0, 2, 3}, true, false)};
    },
    .errors = []() -> std::vector<ErrorSample> {
      return {
          {{{{2, 3, 8}}, {{8, 2}}}, RecurrentAttrs{}, "the weight must have the shape [3 h, h]"},
          {{{{2, 3, 6}}, {{6, 2}}, {{6}}, {{2, 3}}},
           RecurrentAttrs{},
           "the initial hidden state must be f32[2, 2]"},
          {{{{2, 3, 6}}, {{6, 2}}, {{6}}, {{2, 2}}, {{2}, 4, 5, true}},
           RecurrentAttrs{},
           "length 4 of sequence 0 is outside [0, 3]"}};
    },
    .ulps = 16,
};

extern const OpDef gru_grad{
    .name = "gru_grad",
    .doc =
        "the gradients of gru: of the gates, of the products with the state, of the initial state; "
        "and the state before every step, with which the gradient of the weight is one product",
    .precision = {.cast_mask = 1U << GruGradInput::kGradSequence |
                               1U << GruGradInput::kGradActivated | 1U << GruGradInput::kWeight |
                               1U << GruGradInput::kSequence | 1U << GruGradInput::kActivated,
                  .reason = "part of a backward pass, which runs in its forward's dtype; what is "
                            "passed from step to step is f32"},
    .infer = infer_gru_grad,
    .flops = [](Inputs inputs, std::span<const Tensor> outputs,
                const Attrs&) { return gru_flops_of(*inputs[GruGradInput::kWeight], outputs[0]); },
    .samples = []() -> std::vector<Sample> {
      return {gru_grad_sample({2, 3, 5}, true, false), gru_grad_sample({3, 4, 17}, false, false),
              gru_grad_sample({5, 3, 8}, false, true), gru_grad_sample({1, 2, 1}, true, true),
              gru_grad_sample({2, 2, 3}, false, false, true)};
    },
    .ulps = 16,
};

}  // namespace ops

namespace {

GruGrads fused_gru_grads(Backward& ctx) {
  const Tensor weight = ctx.input(GruInput::kWeight);
  const Tensor sequence = ctx.output(GruOutput::kSequence);
  const Tensor kept = ctx.output(GruOutput::kActivated);
  const Tensor hidden = input_if_given(ctx, GruInput::kHidden);
  const Tensor lengths = input_if_given(ctx, GruInput::kLengths);
  const Outputs outputs =
      call(ops::gru_grad,
           {&weight, &sequence, &kept, &ctx.grad(GruOutput::kSequence),
            &ctx.grad(GruOutput::kFinal), &ctx.grad(GruOutput::kActivated), &hidden, &lengths},
           ctx.attrs<RecurrentAttrs>());
  return {outputs[GruGradOutput::kGates], outputs[GruGradOutput::kSums],
          outputs[GruGradOutput::kInitial], outputs[GruGradOutput::kPrevious]};
}

RecurrentResult gru_by_steps(const Tensor& gates, const RecurrentWeights& weights,
                             const RecurrentOptions& options) {
  const std::int64_t size = weights.weight.shape()[1];
  const RecurrentSteps steps(gates.shape()[1], options.lengths, options.reverse);
  Tensor h = options.hidden;
  std::vector<Tensor> sequence(static_cast<std::size_t>(steps.count()));
  for (std::int64_t k = 0; k < steps.count(); ++k) {
    const std::int64_t t = steps.at(k);
    const Tensor m = state_product(h, weights, gates.dtype());
    // A region lowers the product only: it would round the state at every step.
    const WithoutPrecisionHook outside;
    const Tensor in = widen(at_step(gates, t));
    const auto part = [&](std::int64_t gate) -> Tensor {
      return !m.defined() ? Tensor() : slice(m, -1, gate * size, (gate + 1) * size);
    };
    const Tensor r = sigmoid(sum_of_defined(gate_of(in, 0, size), part(0)));
    const Tensor z = sigmoid(sum_of_defined(gate_of(in, 1, size), part(1)));
    const Tensor m_n = part(2);
    const Tensor n = tanh(sum_of_defined(gate_of(in, 2, size), m_n.defined() ? r * m_n : Tensor()));
    const Tensor fresh = (1.0 - z) * n;
    const Tensor now = h.defined() ? fresh + z * h : fresh;
    sequence[static_cast<std::size_t>(t)] = steps.choose(t, now, {});
    h = steps.choose(t, now, h);
  }
  return {join_steps(sequence, gates.dtype()), h, Tensor()};
}

}  // namespace

RecurrentResult gru(const Tensor& gates, const RecurrentWeights& weights,
                    const RecurrentOptions& options) {
  check_arg(!options.cell.defined(), "gru", "there is a cell state, ", options.cell,
            ". Give a hidden state only");
  const Tensor bias = widen(weights.bias);
  RecurrentOptions given = options;
  given.hidden = widen(options.hidden);
  if (options.lengths.defined()) given.lengths = as_indices(options.lengths);
  const std::array<const Tensor*, 5> inputs{&gates, &weights.weight, &bias, &given.hidden,
                                            &given.lengths};
  const Attrs attrs = RecurrentAttrs{options.reverse};
  if (StepByStep::is_on()) {
    check_recurrent(Infer("gru", inputs, attrs), kGruInputs);
    return gru_by_steps(gates, {weights.weight, bias}, given);
  }
  const Outputs outputs = call(ops::gru, inputs, attrs);
  return {outputs[GruOutput::kSequence], outputs[GruOutput::kFinal], Tensor()};
}

}  // namespace mezzo
