// The steps of long short-term memories, and their gradients.
#include "mezzo/kernels/cuda/functions.cuh"
#include "mezzo/kernels/cuda/recurrent.cuh"

namespace mezzo::kernels::cuda {
namespace {

template <class T>
struct LstmCell {
  static constexpr std::int64_t kGates = kLstmGates;

  const T* gates;     // [b, t, 4h]
  const float* bias;  // [4h], or null
  T* sequence;        // [b, t, h]
  T* activated;       // [b, t, 4h]
  float* cells;       // [b, t, h]
  float* final_h;     // [b, h]
  float* final_c;     // [b, h]: c before the step, then after it
  T* factors;         // [b, h]: the state of the next product
  std::int64_t h;

  __device__ void operator()(const CellPlace& at, const float* products) const {
    const auto sum = [&](std::int64_t gate) {
      const std::int64_t column = gate * h + at.unit;
      const float product = value_or_zero(products, at.sequence * kGates * h + column);
      return widen(gates[at.row * kGates * h + column]) + (product + value_or_zero(bias, column));
    };
    const float i = functions::sigmoid(sum(0));
    const float f = functions::sigmoid(sum(1));
    const float g = tanhf(sum(2));
    const float o = functions::sigmoid(sum(3));
    const float c = fmaf(f, final_c[at.state], i * g);
    const float y = o * tanhf(c);
    keep(at, {i, f, g, o}, c, y);
    final_c[at.state] = c;
    final_h[at.state] = y;
    // The state is a factor of products, which in 16 bits are those of 16-bit numbers.
    factors[at.state] = narrow<T>(y);
  }
  __device__ void skip(const CellPlace& at, const float* /*products*/) const {
    keep(at, {0, 0, 0, 0}, 0, 0);
  }

 private:
  __device__ void keep(const CellPlace& at, const float (&values)[kLstmGates], float c,
                       float y) const {
#pragma unroll
    for (int gate = 0; gate < kLstmGates; ++gate) {
      activated[(at.row * kGates + gate) * h + at.unit] = narrow<T>(values[gate]);
    }
    cells[at.row * h + at.unit] = c;
    sequence[at.row * h + at.unit] = narrow<T>(y);
  }
};

template <class T>
void run_lstm_of(const KernelArgs& args) {
  using In = LstmInput;
  using Out = LstmOutput;
  const Launch launch(args.output());
  const Tensor gates = dense(args.input(In::kGates), Format::kContiguous);
  const Tensor weight = dense(args.input(In::kWeight), Format::kContiguous);
  const Tensor bias = dense_if_given(args, In::kBias);
  const Tensor hidden = dense_if_given(args, In::kHidden);
  const Tensor lengths = dense_if_given(args, In::kLengths);
  const SequenceSteps steps(args, args.output(Out::kSequence).shape(), lengths);
  if (steps.states() == 0) return;
  const Scratch factors(static_cast<std::size_t>(steps.states()) * sizeof(T), launch.device());
  auto* final_h = out<float>(args.output(Out::kFinal));
  float* final_c = final_h + steps.states();
  begin_state(launch, steps.states(), hidden, final_h, factors.as<T>());
  begin_state<T>(launch, steps.states(), dense_if_given(args, In::kCell), final_c, nullptr);
  const LstmCell<T> cell{in<T>(gates),
                         in_or_null<float>(bias),
                         out<T>(args.output(Out::kSequence)),
                         out<T>(args.output(Out::kActivated)),
                         out<float>(args.output(Out::kCells)),
                         final_h,
                         final_c,
                         factors.as<T>(),
                         steps.h};
  run_steps<T>(launch, cell, steps, weight, !hidden.defined());
}

void run_lstm(const KernelArgs& args) {
  visit_vector_dtype(args.input(LstmInput::kGates).dtype(),
                     [&]<class T>() { run_lstm_of<T>(args); });
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
  float* grad_h;  // [b, h]: the gradient of the state after the step, without the last product
  float* grad_c;  // [b, h]: the gradient of c after the step, then before it
  T* factors;     // [b, 4h]: the gradient of the sums, for the product with the weight
  std::int64_t h;

  __device__ void operator()(const CellPlace& at, const float* products) const {
    const std::int64_t unit = at.row * h + at.unit;
    const std::int64_t earlier = at.before * h + at.unit;
    const auto kept = [&](int gate) { return widen(activated[gate_at(at, gate)]); };
    const float i = kept(0);
    const float f = kept(1);
    const float g = kept(2);
    const float o = kept(3);
    const float y = tanhf(cells[unit]);
    const float dh =
        grad_h[at.state] + value_or_zero(products, at.state) + value_or_zero(grad_sequence, unit);
    const float dc = grad_c[at.state] + dh * o * (1 - y * y) + value_or_zero(grad_cells, unit);
    const float c_before = at.before < 0 ? value_or_zero(cell, at.state) : cells[earlier];
    previous[unit] =
        at.before >= 0 ? sequence[earlier] : narrow<T>(value_or_zero(hidden, at.state));
    grad_h[at.state] = 0;
    grad_c[at.state] = dc * f;
    finish(at, 0, dc * g, i - i * i);
    finish(at, 1, dc * c_before, f - f * f);
    finish(at, 2, dc * i, 1 - g * g);
    finish(at, 3, dh * y, o - o * o);
  }

  // What reached the state after the sequence's end stays.
  __device__ void skip(const CellPlace& at, const float* products) const {
    grad_h[at.state] += value_or_zero(products, at.state);
    previous[at.row * h + at.unit] = T();
#pragma unroll
    for (int gate = 0; gate < kLstmGates; ++gate) set(at, gate, T());
  }

 private:
  __device__ std::int64_t gate_at(const CellPlace& at, int gate) const {
    return (at.row * kGates + gate) * h + at.unit;
  }
  __device__ void set(const CellPlace& at, int gate, T value) const {
    grad_gates[gate_at(at, gate)] = value;
    factors[(at.sequence * kGates + gate) * h + at.unit] = value;
  }
  __device__ void finish(const CellPlace& at, int gate, float direct, float derivative) const {
    const float sum = direct + value_or_zero(grad_activated, gate_at(at, gate));
    set(at, gate, narrow<T>(sum * derivative));
  }
};

template <class T>
void run_lstm_grad_of(const KernelArgs& args) {
  using In = LstmGradInput;
  using Out = LstmGradOutput;
  const Launch launch(args.output());
  Tensor inputs[In::kLengths + 1];
  for (std::size_t i = 0; i <= In::kLengths; ++i) inputs[i] = dense_if_given(args, i);
  const SequenceSteps steps(args, inputs[In::kSequence].shape(), inputs[In::kLengths]);
  if (steps.states() == 0) return;
  const Scratch factors(static_cast<std::size_t>(kLstmGates * steps.states()) * sizeof(T),
                        launch.device());
  auto* grad_h = out<float>(args.output(Out::kInitial));
  begin_state<T>(launch, 2 * steps.states(), inputs[In::kGradFinal], grad_h, nullptr);
  const LstmGradCell<T> cell{in_or_null<T>(inputs[In::kGradSequence]),
                             in_or_null<T>(inputs[In::kGradActivated]),
                             in_or_null<float>(inputs[In::kGradCells]),
                             in<T>(inputs[In::kSequence]),
                             in<T>(inputs[In::kActivated]),
                             in<float>(inputs[In::kCells]),
                             in_or_null<float>(inputs[In::kHidden]),
                             in_or_null<float>(inputs[In::kCell]),
                             out<T>(args.output(Out::kGates)),
                             out<T>(args.output(Out::kPrevious)),
                             grad_h,
                             grad_h + steps.states(),
                             factors.as<T>(),
                             steps.h};
  run_steps_back<T>(launch, cell, steps, inputs[In::kWeight]);
}

void run_lstm_grad(const KernelArgs& args) {
  visit_vector_dtype(args.input(LstmGradInput::kActivated).dtype(),
                     [&]<class T>() { run_lstm_grad_of<T>(args); });
}

}  // namespace

extern const KernelList lstm{{{{"cuda", supports_steps<LstmInput::kGates>, run_lstm}}}};
extern const KernelList lstm_grad{
    {{{"cuda", supports_steps<LstmGradInput::kActivated>, run_lstm_grad}}}};

}  // namespace mezzo::kernels::cuda
