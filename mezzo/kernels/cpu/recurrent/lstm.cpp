// The steps of long short-term memories, and their gradients.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "mezzo/kernels/cpu/recurrent/lstm.cpp"
#include <hwy/foreach_target.h>

#include "mezzo/kernels/cpu/recurrent/steps-inl.h"
#include "mezzo/kernels/kernel.h"
#include "mezzo/ops/recurrent_attrs.h"

HWY_BEFORE_NAMESPACE();
namespace mezzo::HWY_NAMESPACE {

template <class T>
struct LstmCell {
  static constexpr std::int64_t kGates = kLstmGates;

  const T* gates;      // [b, t, 4h]
  const float* bias;   // [4h]
  T* sequence;         // [b, t, h]
  T* activated;        // [b, t, 4h]
  float* cells;        // [b, t, h]
  float* final_state;  // [b, h]
  float* final_cell;   // [b, h]: c before the step, then after it
  std::int64_t steps;
  std::int64_t h;

  template <class P>
  HWY_INLINE void operator()(const CellPlace& at, P part, const float* sums, std::int64_t sum_step,
                             float* next) const {
    const std::int64_t row = at.sequence * steps + at.position;
    const T* in = gates + row * kGates * h + at.unit;
    const auto gate = [&](std::int64_t k) HWY_ATTR {
      const auto product = hn::Add(load(sums + k * sum_step), load(bias + k * h + at.unit, part));
      return hn::Add(load(in + k * h, part), product);
    };
    const auto i = sigmoid(gate(0));
    const auto f = sigmoid(gate(1));
    const auto g = tanh(gate(2));
    const auto o = sigmoid(gate(3));
    float* const state = final_cell + at.sequence * h + at.unit;
    const auto c = hn::MulAdd(f, load(state, part), hn::Mul(i, g));
    const auto y = hn::Mul(o, tanh(c));
    T* kept = activated + row * kGates * h + at.unit;
    store(i, kept, part);
    store(f, kept + h, part);
    store(g, kept + 2 * h, part);
    store(o, kept + 3 * h, part);
    store(c, state, part);
    store(c, cells + row * h + at.unit, part);
    store(y, final_state + at.sequence * h + at.unit, part);
    store(y, sequence + row * h + at.unit, part);
    // The state is a factor of products, which in 16 bits are those of 16-bit numbers.
    store(as_stored<T>(y), next, part);
  }
};

template <class T>
void run_lstm(const KernelArgs& args) {
  using In = LstmInput;
  using Out = LstmOutput;
  const Tensor gates = kernels::dense(args.input(In::kGates), Format::kContiguous);
  const Tensor weight = kernels::dense(args.input(In::kWeight), Format::kContiguous);
  const std::int64_t batch = gates.shape()[0];
  const std::int64_t steps = gates.shape()[1];
  const std::int64_t h = weight.shape()[1];
  const kernels::Sequences sequences(kernels::input_if_given(args, In::kLengths), batch, steps,
                                     args.attrs<RecurrentAttrs>().reverse, "lstm");
  const Tensor bias = floats_or_zeros(kernels::input_if_given(args, In::kBias), {kLstmGates * h});
  auto* final_state = args.output(Out::kFinal).mutable_data<float>();
  float* final_cell = final_state + batch * h;
  begin_state(kernels::input_if_given(args, In::kHidden), final_state, batch * h);
  begin_state(kernels::input_if_given(args, In::kCell), final_cell, batch * h);
  for (const std::size_t i : {Out::kSequence, Out::kActivated, Out::kCells}) {
    sequences.clear_ends(args.output(i));
  }
  run_steps(sequences, weight.data<T>(), h, final_state,
            LstmCell<T>{
                gates.data<T>(), bias.data<float>(), args.output(Out::kSequence).mutable_data<T>(),
                args.output(Out::kActivated).mutable_data<T>(),
                args.output(Out::kCells).mutable_data<float>(), final_state, final_cell, steps, h});
}

void lstm(const KernelArgs& args) {
  kernels::visit_vector_dtype(args.input(LstmInput::kGates).dtype(),
                              [&]<class T>() { run_lstm<T>(args); });
}

template <class T>
struct LstmGradCell {
  static constexpr std::int64_t kGates = kLstmGates;

  // The gradients of the results; null for those that have none.
  const T* grad_sequence;
  const T* grad_activated;
  const float* grad_cells;
  const T* sequence;
  const T* activated;
  const float* cells;
  const float* hidden;  // the initial states, or null
  const float* cell;
  T* grad_gates;
  T* previous;
  float* grad_c;  // [b, h]: the gradient of c after the step, then before it
  std::int64_t steps;
  std::int64_t h;

  template <class P>
  HWY_INLINE void operator()(const CellPlace& at, P part, float* grad, float* factors,
                             std::int64_t factor_step) const {
    const std::int64_t row = at.sequence * steps + at.position;
    const std::int64_t unit = row * h + at.unit;
    const std::int64_t gate = row * kGates * h + at.unit;
    const std::int64_t first = at.sequence * h + at.unit;
    const std::int64_t before = (at.sequence * steps + at.before) * h + at.unit;
    const auto one = hn::Set(F32(), 1.0F);
    const auto i = load(activated + gate, part);
    const auto f = load(activated + gate + h, part);
    const auto g = load(activated + gate + 2 * h, part);
    const auto o = load(activated + gate + 3 * h, part);
    const auto y = tanh(load(cells + unit, part));
    const auto dh = hn::Add(load(grad, part), load_or_zero(grad_sequence, unit, part));
    const auto through = hn::Mul(hn::Mul(dh, o), hn::NegMulAdd(y, y, one));
    const auto dc =
        hn::Add(hn::Add(load(grad_c + first, part), through), load_or_zero(grad_cells, unit, part));
    const auto c_before =
        at.before < 0 ? load_or_zero(cell, first, part) : load(cells + before, part);
    const auto h_before =
        at.before < 0 ? load_or_zero(hidden, first, part) : load(sequence + before, part);
    store(h_before, previous + unit, part);
    store(hn::Mul(dc, f), grad_c + first, part);
    store(hn::Zero(F32()), grad, part);
    const auto finish = [&](std::int64_t k, F32Vec direct, F32Vec derivative) HWY_ATTR {
      const auto sum = hn::Add(direct, load_or_zero(grad_activated, gate + k * h, part));
      const auto result = hn::Mul(sum, derivative);
      store(result, grad_gates + gate + k * h, part);
      store(as_stored<T>(result), factors + k * factor_step, part);
    };
    finish(0, hn::Mul(dc, g), hn::NegMulAdd(i, i, i));
    finish(1, hn::Mul(dc, c_before), hn::NegMulAdd(f, f, f));
    finish(2, hn::Mul(dc, i), hn::NegMulAdd(g, g, one));
    finish(3, hn::Mul(dh, y), hn::NegMulAdd(o, o, o));
  }
};

template <class T>
void run_lstm_grad(const KernelArgs& args) {
  using In = LstmGradInput;
  using Out = LstmGradOutput;
  const Shape& shape = args.input(In::kSequence).shape();
  const std::int64_t batch = shape[0];
  const std::int64_t h = shape[2];
  const kernels::Sequences sequences(kernels::input_if_given(args, In::kLengths), batch, shape[1],
                                     args.attrs<RecurrentAttrs>().reverse, "lstm");
  auto* grad_h = args.output(Out::kInitial).mutable_data<float>();
  float* grad_c = grad_h + batch * h;
  begin_state(kernels::input_if_given(args, In::kGradFinal), grad_h, 2 * batch * h);
  sequences.clear_ends(args.output(Out::kGates));
  sequences.clear_ends(args.output(Out::kPrevious));
  kernels::OptionalInputs inputs(args);
  const LstmGradCell<T> cell{inputs.find<T>(In::kGradSequence),
                             inputs.find<T>(In::kGradActivated),
                             inputs.find<float>(In::kGradCells),
                             inputs.find<T>(In::kSequence),
                             inputs.find<T>(In::kActivated),
                             inputs.find<float>(In::kCells),
                             inputs.find<float>(In::kHidden),
                             inputs.find<float>(In::kCell),
                             args.output(Out::kGates).mutable_data<T>(),
                             args.output(Out::kPrevious).mutable_data<T>(),
                             grad_c,
                             shape[1],
                             h};
  run_steps_back(sequences, inputs.find<T>(In::kWeight), h, grad_h, cell);
}

void lstm_grad(const KernelArgs& args) {
  kernels::visit_vector_dtype(args.input(LstmGradInput::kActivated).dtype(),
                              [&]<class T>() { run_lstm_grad<T>(args); });
}

}  // namespace mezzo::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace mezzo::kernels::cpu {
namespace {

HWY_EXPORT(lstm);
HWY_EXPORT(lstm_grad);

void run_lstm_steps(const KernelArgs& args) { HWY_DYNAMIC_DISPATCH(lstm)(args); }
void run_lstm_grad_steps(const KernelArgs& args) { HWY_DYNAMIC_DISPATCH(lstm_grad)(args); }

}  // namespace

extern const KernelList lstm{{{{"cpu_steps", supports_steps<LstmInput::kGates>, run_lstm_steps}}}};
extern const KernelList lstm_grad{
    {{{"cpu_steps", supports_steps<LstmGradInput::kActivated>, run_lstm_grad_steps}}}};

}  // namespace mezzo::kernels::cpu
#endif
