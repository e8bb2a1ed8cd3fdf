#include "mezzo/kernels/ref/recurrent.h"
#include "mezzo/ops/recurrent_attrs.h"

namespace mezzo::kernels::ref {

extern const RefKernel lstm = [](const RefArgs& args) {
  using In = LstmInput;
  using Out = LstmOutput;
  const RecurrentWalk walk =
      walk_of(args, args.outputs[Out::kSequence].shape, In::kLengths, "lstm");
  const std::int64_t h = walk.h;
  const DType dtype = args.inputs[In::kGates].dtype;
  const RefTensor& weight = args.inputs[In::kWeight];
  fill_zeros(args);
  const auto gate = [&](std::int64_t row, const std::vector<double>& state, std::int64_t column) {
    double sum =
        args.inputs[In::kGates][row * 4 * h + column] + value_or_zero(args, In::kBias, column);
    for (std::int64_t k = 0; k < h; ++k) {
      sum += factor_in(dtype, state[static_cast<std::size_t>(k)]) * weight[column * h + k];
    }
    return sum;
  };
  for (std::int64_t n = 0; n < walk.batch; ++n) {
    double* final_h = args.outputs[Out::kFinal].data + n * h;
    double* c = args.outputs[Out::kFinal].data + (walk.batch + n) * h;
    for (std::int64_t u = 0; u < h; ++u) {
      final_h[u] = value_or_zero(args, In::kHidden, n * h + u);
      c[u] = value_or_zero(args, In::kCell, n * h + u);
    }
    walk.forwards(n, [&](std::int64_t row, std::int64_t) {
      const std::vector<double> state(final_h, final_h + h);
      double* kept = args.outputs[Out::kActivated].data + row * 4 * h;
      for (std::int64_t u = 0; u < h; ++u) {
        const double i = kept[u] = sigmoid_of(gate(row, state, u));
        const double f = kept[h + u] = sigmoid_of(gate(row, state, h + u));
        const double g = kept[2 * h + u] = std::tanh(gate(row, state, 2 * h + u));
        const double o = kept[3 * h + u] = sigmoid_of(gate(row, state, 3 * h + u));
        c[u] = f * c[u] + i * g;
        final_h[u] = o * std::tanh(c[u]);
        args.outputs[Out::kSequence][row * h + u] = final_h[u];
        args.outputs[Out::kCells][row * h + u] = c[u];
      }
    });
  }
};

namespace {

// The gradient of one step, with respect to what enters the gates (`gates`) and to c before it.
void lstm_step_grad(const RefArgs& args, std::int64_t row, std::int64_t u, double c_before,
                    double dh, double& dc) {
  using In = LstmGradInput;
  const std::int64_t h = args.inputs[In::kSequence].shape[2];
  const auto gate = [&](std::int64_t k) { return row * 4 * h + k * h + u; };
  const RefTensor& kept = args.inputs[In::kActivated];
  const double i = kept[gate(0)];
  const double f = kept[gate(1)];
  const double g = kept[gate(2)];
  const double o = kept[gate(3)];
  const double y = std::tanh(args.inputs[In::kCells][row * h + u]);
  dh += value_or_zero(args, In::kGradSequence, row * h + u);
  dc += value_or_zero(args, In::kGradCells, row * h + u) + dh * o * (1 - y * y);
  const auto more = [&](std::int64_t k) {
    return value_or_zero(args, In::kGradActivated, gate(k));
  };
  double* to = args.outputs[LstmGradOutput::kGates].data;
  to[gate(0)] = (dc * g + more(0)) * i * (1 - i);
  to[gate(1)] = (dc * c_before + more(1)) * f * (1 - f);
  to[gate(2)] = (dc * i + more(2)) * (1 - g * g);
  to[gate(3)] = (dh * y + more(3)) * o * (1 - o);
  dc *= f;
}

}  // namespace

extern const RefKernel lstm_grad = [](const RefArgs& args) {
  using In = LstmGradInput;
  using Out = LstmGradOutput;
  const RecurrentWalk walk = walk_of(args, args.inputs[In::kSequence].shape, In::kLengths, "lstm");
  const std::int64_t h = walk.h;
  const DType dtype = args.inputs[In::kActivated].dtype;
  const RefTensor& weight = args.inputs[In::kWeight];
  fill_zeros(args);
  for (std::int64_t n = 0; n < walk.batch; ++n) {
    double* dh = args.outputs[Out::kInitial].data + n * h;
    double* dc = args.outputs[Out::kInitial].data + (walk.batch + n) * h;
    for (std::int64_t u = 0; u < h; ++u) {
      dh[u] = value_or_zero(args, In::kGradFinal, n * h + u);
      dc[u] = value_or_zero(args, In::kGradFinal, (walk.batch + n) * h + u);
    }
    walk.backwards(n, [&](std::int64_t row, std::int64_t before) {
      for (std::int64_t u = 0; u < h; ++u) {
        const std::int64_t first = n * h + u;
        const double c_before = before < 0 ? value_or_zero(args, In::kCell, first)
                                           : args.inputs[In::kCells][before * h + u];
        args.outputs[Out::kPrevious][row * h + u] =
            before < 0 ? value_or_zero(args, In::kHidden, first)
                       : args.inputs[In::kSequence][before * h + u];
        lstm_step_grad(args, row, u, c_before, dh[u], dc[u]);
      }
      const double* gates = args.outputs[Out::kGates].data + row * 4 * h;
      for (std::int64_t u = 0; u < h; ++u) {
        dh[u] = 0;
        for (std::int64_t k = 0; k < 4 * h; ++k) {
          dh[u] += factor_in(dtype, gates[k]) * weight[k * h + u];
        }
      }
    });
  }
};

}  // namespace mezzo::kernels::ref
