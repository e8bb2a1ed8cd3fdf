// The steps of gated recurrent units, and their gradients.
#include "mezzo/kernels/cuda/functions.cuh"
#include "mezzo/kernels/cuda/recurrent.cuh"

namespace mezzo::kernels::cuda {
namespace {

template <class T>
struct GruCell {
  static constexpr std::int64_t kGates = kGruGates;

  const T* gates;     // [b, t, 3h]
  const float* bias;  // [3h], or null
  T* sequence;        // [b, t, h]
  T* kept;            // [b, t, 4h]: r, z, n, and the product that enters n
  float* state;       // [b, h]: before the step, then after it
  T* factors;         // [b, h]: the state of the next product
  std::int64_t h;

  __device__ void operator()(const CellPlace& at, const float* products) const {
    const auto product = [&](std::int64_t gate) {
      const std::int64_t column = gate * h + at.unit;
      return value_or_zero(products, at.sequence * kGates * h + column) +
             value_or_zero(bias, column);
    };
    const auto in = [&](std::int64_t gate) {
      return widen(gates[(at.row * kGates + gate) * h + at.unit]);
    };
    const float r = functions::sigmoid(in(0) + product(0));
    const float z = functions::sigmoid(in(1) + product(1));
    const float m = product(2);
    const float n = tanhf(fmaf(r, m, in(2)));
    const float y = fmaf(z, state[at.state], (1 - z) * n);
    keep(at, {r, z, n, m}, y);
    state[at.state] = y;
    // The state is a factor of products, which in 16 bits are those of 16-bit numbers.
    factors[at.state] = narrow<T>(y);
  }
  __device__ void skip(const CellPlace& at, const float* /*products*/) const {
    keep(at, {0, 0, 0, 0}, 0);
  }

 private:
  __device__ void keep(const CellPlace& at, const float (&values)[kGruKept], float y) const {
#pragma unroll
    for (int i = 0; i < kGruKept; ++i) {
      kept[(at.row * kGruKept + i) * h + at.unit] = narrow<T>(values[i]);
    }
    sequence[at.row * h + at.unit] = narrow<T>(y);
  }
};

template <class T>
void run_gru_of(const KernelArgs& args) {
  using In = GruInput;
  using Out = GruOutput;
  const Launch launch(args.output());
  const Tensor gates = dense(args.input(In::kGates), Format::kContiguous);
  const Tensor weight = dense(args.input(In::kWeight), Format::kContiguous);
  const Tensor bias = dense_if_given(args, In::kBias);
  const Tensor hidden = dense_if_given(args, In::kHidden);
  const Tensor lengths = dense_if_given(args, In::kLengths);
  const SequenceSteps steps(args, args.output(Out::kSequence).shape(), lengths);
  if (steps.states() == 0) return;
  const Scratch factors(static_cast<std::size_t>(steps.states()) * sizeof(T), launch.device());
  auto* state = out<float>(args.output(Out::kFinal));
  begin_state(launch, steps.states(), hidden, state, factors.as<T>());
  const GruCell<T> cell{in<T>(gates),
                        in_or_null<float>(bias),
                        out<T>(args.output(Out::kSequence)),
                        out<T>(args.output(Out::kActivated)),
                        state,
                        factors.as<T>(),
                        steps.h};
  run_steps<T>(launch, cell, steps, weight, !hidden.defined());
}

void run_gru(const KernelArgs& args) {
  visit_vector_dtype(args.input(GruInput::kGates).dtype(), [&]<class T>() { run_gru_of<T>(args); });
}

template <class T>
struct GruGradCell {
  static constexpr std::int64_t kGates = kGruGates;

  // The gradients of the results; null for those that have none.
  const T* grad_sequence;
  const T* grad_kept;
  const T* sequence;
  const T* kept;
  const float* hidden;  // the initial state, or null
  T* grad_gates;        // [b, t, 3h]
  T* grad_sums;         // [b, t, 3h]: of the products with the state
  T* previous;
  float* grad_h;  // [b, h]: the gradient of the state, without the last product
  T* factors;     // [b, 3h]: grad_sums of the step, for the product with the weight
  std::int64_t h;

  __device__ void operator()(const CellPlace& at, const float* products) const {
    const std::int64_t unit = at.row * h + at.unit;
    const auto value = [&](int i) { return widen(kept[kept_at(at, i)]); };
    const auto more = [&](int i) { return value_or_zero(grad_kept, kept_at(at, i)); };
    const float r = value(0);
    const float z = value(1);
    const float n = value(2);
    const float dh =
        grad_h[at.state] + value_or_zero(products, at.state) + value_or_zero(grad_sequence, unit);
    const float before =
        at.before < 0 ? value_or_zero(hidden, at.state) : widen(sequence[at.before * h + at.unit]);
    const float grad_n = (dh * (1 - z) + more(2)) * (1 - n * n);
    const float grad_z = (dh * (before - n) + more(1)) * (z - z * z);
    const float grad_r = (grad_n * value(3) + more(0)) * (r - r * r);
    previous[unit] = narrow<T>(before);
    grad_h[at.state] = dh * z;
    set(at, 0, grad_r, grad_r);
    set(at, 1, grad_z, grad_z);
    set(at, 2, grad_n, grad_n * r + more(3));
  }

  // What reached the state after the sequence's end stays.
  __device__ void skip(const CellPlace& at, const float* products) const {
    grad_h[at.state] += value_or_zero(products, at.state);
    previous[at.row * h + at.unit] = T();
#pragma unroll
    for (int gate = 0; gate < kGruGates; ++gate) set(at, gate, 0, 0);
  }

 private:
  __device__ std::int64_t kept_at(const CellPlace& at, int i) const {
    return (at.row * kGruKept + i) * h + at.unit;
  }
  __device__ void set(const CellPlace& at, int gate, float of_gate, float of_sum) const {
    const std::int64_t to = (at.row * kGates + gate) * h + at.unit;
    const T sum = narrow<T>(of_sum);
    grad_gates[to] = narrow<T>(of_gate);
    grad_sums[to] = sum;
    factors[(at.sequence * kGates + gate) * h + at.unit] = sum;
  }
};

template <class T>
void run_gru_grad_of(const KernelArgs& args) {
  using In = GruGradInput;
  using Out = GruGradOutput;
  const Launch launch(args.output());
  Tensor inputs[In::kLengths + 1];
  for (std::size_t i = 0; i <= In::kLengths; ++i) inputs[i] = dense_if_given(args, i);
  const SequenceSteps steps(args, inputs[In::kSequence].shape(), inputs[In::kLengths]);
  if (steps.states() == 0) return;
  const Scratch factors(static_cast<std::size_t>(kGruGates * steps.states()) * sizeof(T),
                        launch.device());
  auto* grad_h = out<float>(args.output(Out::kInitial));
  begin_state<T>(launch, steps.states(), inputs[In::kGradFinal], grad_h, nullptr);
  const GruGradCell<T> cell{in_or_null<T>(inputs[In::kGradSequence]),
                            in_or_null<T>(inputs[In::kGradActivated]),
                            in<T>(inputs[In::kSequence]),
                            in<T>(inputs[In::kActivated]),
                            in_or_null<float>(inputs[In::kHidden]),
                            out<T>(args.output(Out::kGates)),
                            out<T>(args.output(Out::kSums)),
                            out<T>(args.output(Out::kPrevious)),
                            grad_h,
                            factors.as<T>(),
                            steps.h};
  run_steps_back<T>(launch, cell, steps, inputs[In::kWeight]);
}

void run_gru_grad(const KernelArgs& args) {
  visit_vector_dtype(args.input(GruGradInput::kActivated).dtype(),
                     [&]<class T>() { run_gru_grad_of<T>(args); });
}

}  // namespace

extern const KernelList gru{{{{"cuda", supports_steps<GruInput::kGates>, run_gru}}}};
extern const KernelList gru_grad{
    {{{"cuda", supports_steps<GruGradInput::kActivated>, run_gru_grad}}}};

}  // namespace mezzo::kernels::cuda
