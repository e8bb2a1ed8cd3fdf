// The steps of gated recurrent units, and their gradients.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "mezzo/kernels/cpu/recurrent/gru.cpp"
#include <hwy/foreach_target.h>

#include "mezzo/kernels/cpu/recurrent/steps-inl.h"
#include "mezzo/kernels/kernel.h"
#include "mezzo/ops/recurrent_attrs.h"

HWY_BEFORE_NAMESPACE();
namespace mezzo::HWY_NAMESPACE {

template <class T>
struct GruCell {
  static constexpr std::int64_t kGates = kGruGates;

  const T* gates;     // [b, t, 3h]
  const float* bias;  // [3h]
  T* sequence;        // [b, t, h]
  T* activated;       // [b, t, 4h]
  float* state;       // [b, h]: before the step, then after it
  std::int64_t steps;
  std::int64_t h;

  template <class P>
  HWY_INLINE void operator()(const CellPlace& at, P part, const float* sums, std::int64_t sum_step,
                             float* next) const {
    const std::int64_t row = at.sequence * steps + at.position;
    const T* in = gates + row * kGates * h + at.unit;
    const auto product = [&](std::int64_t k) HWY_ATTR {
      return hn::Add(load(sums + k * sum_step), load(bias + k * h + at.unit, part));
    };
    const auto r = sigmoid(hn::Add(load(in, part), product(0)));
    const auto z = sigmoid_pair(hn::Add(load(in + h, part), product(1)));
    const auto m = product(2);
    const auto n = tanh(hn::MulAdd(r, m, load(in + 2 * h, part)));
    float* const held = state + at.sequence * h + at.unit;
    const auto y = hn::MulAdd(z.of_x, load(held, part), hn::Mul(z.of_minus_x, n));
    T* kept = activated + row * kGruKept * h + at.unit;
    store(r, kept, part);
    store(z.of_x, kept + h, part);
    store(n, kept + 2 * h, part);
    store(m, kept + 3 * h, part);
    store(y, held, part);
    store(y, sequence + row * h + at.unit, part);
    // The state is a factor of products, which in 16 bits are those of 16-bit numbers.
    store(as_stored<T>(y), next, part);
  }
};

template <class T>
void run_gru(const KernelArgs& args) {
  using In = GruInput;
  using Out = GruOutput;
  const Tensor gates = kernels::dense(args.input(In::kGates), Format::kContiguous);
  const Tensor weight = kernels::dense(args.input(In::kWeight), Format::kContiguous);
  const std::int64_t batch = gates.shape()[0];
  const std::int64_t steps = gates.shape()[1];
  const std::int64_t h = weight.shape()[1];
  const kernels::Sequences sequences(kernels::input_if_given(args, In::kLengths), batch, steps,
                                     args.attrs<RecurrentAttrs>().reverse, "gru");
  const Tensor bias = floats_or_zeros(kernels::input_if_given(args, In::kBias), {kGruGates * h});
  auto* state = args.output(Out::kFinal).mutable_data<float>();
  begin_state(kernels::input_if_given(args, In::kHidden), state, batch * h);
  sequences.clear_ends(args.output(Out::kSequence));
  sequences.clear_ends(args.output(Out::kActivated));
  run_steps(
      sequences, weight.data<T>(), h, state,
      GruCell<T>{gates.data<T>(), bias.data<float>(), args.output(Out::kSequence).mutable_data<T>(),
                 args.output(Out::kActivated).mutable_data<T>(), state, steps, h});
}

void gru(const KernelArgs& args) {
  kernels::visit_vector_dtype(args.input(GruInput::kGates).dtype(),
                              [&]<class T>() { run_gru<T>(args); });
}

template <class T>
struct GruGradCell {
  static constexpr std::int64_t kGates = kGruGates;

  // The gradients of the results; null for those that have none.
  const T* grad_sequence;
  const T* grad_activated;
  const T* sequence;
  const T* activated;
  const float* hidden;  // the initial state, or null
  T* grad_gates;
  T* grad_sums;
  T* previous;
  std::int64_t steps;
  std::int64_t h;

  template <class P>
  HWY_INLINE void operator()(const CellPlace& at, P part, float* grad, float* factors,
                             std::int64_t factor_step) const {
    const std::int64_t row = at.sequence * steps + at.position;
    const std::int64_t unit = row * h + at.unit;
    const std::int64_t kept = row * kGruKept * h + at.unit;
    const auto one = hn::Set(F32(), 1.0F);
    const auto r = load(activated + kept, part);
    const auto z = load(activated + kept + h, part);
    const auto n = load(activated + kept + 2 * h, part);
    const auto m = load(activated + kept + 3 * h, part);
    const auto more = [&](std::int64_t k)
                          HWY_ATTR { return load_or_zero(grad_activated, kept + k * h, part); };
    const auto before =
        at.before < 0 ? load_or_zero(hidden, at.sequence * h + at.unit, part)
                      : load(sequence + (at.sequence * steps + at.before) * h + at.unit, part);
    const auto dh = hn::Add(load(grad, part), load_or_zero(grad_sequence, unit, part));
    const auto dn = hn::Mul(hn::MulAdd(dh, hn::Sub(one, z), more(2)), hn::NegMulAdd(n, n, one));
    const auto dz = hn::Mul(hn::MulAdd(dh, hn::Sub(before, n), more(1)), hn::NegMulAdd(z, z, z));
    const auto dr = hn::Mul(hn::MulAdd(dn, m, more(0)), hn::NegMulAdd(r, r, r));
    const auto dm = hn::MulAdd(dn, r, more(3));
    store(before, previous + unit, part);
    store(hn::Mul(dh, z), grad, part);
    const std::int64_t gate = row * kGates * h + at.unit;
    const auto finish = [&](std::int64_t k, F32Vec input, F32Vec product) HWY_ATTR {
      store(input, grad_gates + gate + k * h, part);
      store(product, grad_sums + gate + k * h, part);
      store(as_stored<T>(product), factors + k * factor_step, part);
    };
    finish(0, dr, dr);
    finish(1, dz, dz);
    finish(2, dn, dm);
  }
};

template <class T>
void run_gru_grad(const KernelArgs& args) {
  using In = GruGradInput;
  using Out = GruGradOutput;
  const Shape& shape = args.input(In::kSequence).shape();
  const std::int64_t batch = shape[0];
  const std::int64_t h = shape[2];
  const kernels::Sequences sequences(kernels::input_if_given(args, In::kLengths), batch, shape[1],
                                     args.attrs<RecurrentAttrs>().reverse, "gru");
  auto* grad_state = args.output(Out::kInitial).mutable_data<float>();
  begin_state(kernels::input_if_given(args, In::kGradFinal), grad_state, batch * h);
  for (const std::size_t i : {Out::kGates, Out::kSums, Out::kPrevious}) {
    sequences.clear_ends(args.output(i));
  }
  kernels::OptionalInputs inputs(args);
  const GruGradCell<T> cell{inputs.find<T>(In::kGradSequence),
                            inputs.find<T>(In::kGradActivated),
                            inputs.find<T>(In::kSequence),
                            inputs.find<T>(In::kActivated),
                            inputs.find<float>(In::kHidden),
                            args.output(Out::kGates).mutable_data<T>(),
                            args.output(Out::kSums).mutable_data<T>(),
                            args.output(Out::kPrevious).mutable_data<T>(),
                            shape[1],
                            h};
  run_steps_back(sequences, inputs.find<T>(In::kWeight), h, grad_state, cell);
}

void gru_grad(const KernelArgs& args) {
  kernels::visit_vector_dtype(args.input(GruGradInput::kActivated).dtype(),
                              [&]<class T>() { run_gru_grad<T>(args); });
}

}  // namespace mezzo::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace mezzo::kernels::cpu {
namespace {

HWY_EXPORT(gru);
HWY_EXPORT(gru_grad);

void run_gru_steps(const KernelArgs& args) { HWY_DYNAMIC_DISPATCH(gru)(args); }
void run_gru_grad_steps(const KernelArgs& args) { HWY_DYNAMIC_DISPATCH(gru_grad)(args); }

}  // namespace

extern const KernelList gru{{{{"cpu_steps", supports_steps<GruInput::kGates>, run_gru_steps}}}};
extern const KernelList gru_grad{
    {{{"cpu_steps", supports_steps<GruGradInput::kActivated>, run_gru_grad_steps}}}};

}  // namespace mezzo::kernels::cpu
#endif
