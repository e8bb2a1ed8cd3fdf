#include "mezzo/kernels/ref/recurrent.h"
#include "mezzo/ops/recurrent_attrs.h"

namespace mezzo::kernels::ref {

extern const RefKernel gru = [](const RefArgs& args) {
  using In = GruInput;
  using Out = GruOutput;
  const RecurrentWalk walk = walk_of(args, args.outputs[Out::kSequence].shape, In::kLengths, "gru");
  const std::int64_t h = walk.h;
  const DType dtype = args.inputs[In::kGates].dtype;
  const RefTensor& weight = args.inputs[In::kWeight];
  const RefTensor& gates = args.inputs[In::kGates];
  fill_zeros(args);
  const auto product = [&](const std::vector<double>& state, std::int64_t column) {
    double sum = value_or_zero(args, In::kBias, column);
    for (std::int64_t k = 0; k < h; ++k) {
      sum += factor_in(dtype, state[static_cast<std::size_t>(k)]) * weight[column * h + k];
    }
    return sum;
  };
  for (std::int64_t n = 0; n < walk.batch; ++n) {
    double* state = args.outputs[Out::kFinal].data + n * h;
    for (std::int64_t u = 0; u < h; ++u) state[u] = value_or_zero(args, In::kHidden, n * h + u);
    walk.forwards(n, [&](std::int64_t row, std::int64_t) {
      const std::vector<double> before(state, state + h);
      double* kept = args.outputs[Out::kActivated].data + row * 4 * h;
      const double* in = gates.data + row * 3 * h;
      for (std::int64_t u = 0; u < h; ++u) {
        const double r = kept[u] = sigmoid_of(in[u] + product(before, u));
        const double z = kept[h + u] = sigmoid_of(in[h + u] + product(before, h + u));
        const double m = kept[3 * h + u] = product(before, 2 * h + u);
        const double fresh = kept[2 * h + u] = std::tanh(in[2 * h + u] + r * m);
        state[u] = (1 - z) * fresh + z * state[u];
        args.outputs[Out::kSequence][row * h + u] = state[u];
      }
    });
  }
};

namespace {

// The gradient of one step, where `before` is the state before it. Changes dh to what reaches that
// state without the products.
void gru_step_grad(const RefArgs& args, std::int64_t row, std::int64_t u, double before,
                   double& dh) {
  using In = GruGradInput;
  const std::int64_t h = args.inputs[In::kSequence].shape[2];
  const auto kept = [&](std::int64_t k) {
    return args.inputs[In::kActivated][row * 4 * h + k * h + u];
  };
  const auto more = [&](std::int64_t k) {
    return value_or_zero(args, In::kGradActivated, row * 4 * h + k * h + u);
  };
  dh += value_or_zero(args, In::kGradSequence, row * h + u);
  const double r = kept(0);
  const double z = kept(1);
  const double n = kept(2);
  const double grad_n = (dh * (1 - z) + more(2)) * (1 - n * n);
  const double grad_z = (dh * (before - n) + more(1)) * z * (1 - z);
  const double grad_r = (grad_n * kept(3) + more(0)) * r * (1 - r);
  double* gates = args.outputs[GruGradOutput::kGates].data + row * 3 * h + u;
  double* sums = args.outputs[GruGradOutput::kSums].data + row * 3 * h + u;
  gates[0] = sums[0] = grad_r;
  gates[h] = sums[h] = grad_z;
  gates[2 * h] = grad_n;
  sums[2 * h] = grad_n * r + more(3);
  dh *= z;
}

}  // namespace

extern const RefKernel gru_grad = [](const RefArgs& args) {
  using In = GruGradInput;
  using Out = GruGradOutput;
  const RecurrentWalk walk = walk_of(args, args.inputs[In::kSequence].shape, In::kLengths, "gru");
  const std::int64_t h = walk.h;
  const DType dtype = args.inputs[In::kActivated].dtype;
  const RefTensor& weight = args.inputs[In::kWeight];
  fill_zeros(args);
  for (std::int64_t n = 0; n < walk.batch; ++n) {
    double* dh = args.outputs[Out::kInitial].data + n * h;
    for (std::int64_t u = 0; u < h; ++u) dh[u] = value_or_zero(args, In::kGradFinal, n * h + u);
    walk.backwards(n, [&](std::int64_t row, std::int64_t before) {
      for (std::int64_t u = 0; u < h; ++u) {
        const double state = before < 0 ? value_or_zero(args, In::kHidden, n * h + u)
                                        : args.inputs[In::kSequence][before * h + u];
        args.outputs[Out::kPrevious][row * h + u] = state;
        gru_step_grad(args, row, u, state, dh[u]);
      }
      const double* sums = args.outputs[Out::kSums].data + row * 3 * h;
      for (std::int64_t u = 0; u < h; ++u) {
        for (std::int64_t k = 0; k < 3 * h; ++k) {
          dh[u] += factor_in(dtype, sums[k]) * weight[k * h + u];
        }
      }
    });
  }
};

}  // namespace mezzo::kernels::ref
