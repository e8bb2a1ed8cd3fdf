// The recurrent part of LSTM and GRU layers over whole sequences, in one direction.
//
// What enters the gates from the input at all steps, x W_ih^T + b_ih, is one product, and comes
// first: linear(x, weight_ih, bias_ih). These operations do the rest, step by step. The parameters
// are PyTorch's.
#pragma once

#include "mezzo/core/scoped.h"
#include "mezzo/core/tensor.h"

namespace mezzo {

// What a direction of a recurrent layer has besides the part of the gates that the input gives.
struct RecurrentWeights {
  Tensor weight;  // [gates * h, h]: from the state to the gates
  Tensor bias;    // [gates * h], or undefined
};

struct RecurrentOptions {
  // [b], integers from 0 to t: the number of steps of each sequence; undefined: all have t. Results
  // at later steps are 0, and the gates there are not read. In StepByStep lengths are not checked,
  // and gates at later steps must be finite: gradients multiply them by 0. Devices report a wrong
  // length to the next call that waits for them.
  Tensor lengths{};
  // The state before the first step, [b, h]; undefined: zeros.
  Tensor hidden{};
  Tensor cell{};  // for lstm() only
  // From the last step of each sequence to the first.
  bool reverse = false;
};

struct RecurrentResult {
  // [b, t, h]: the state h after every step, in the dtype to which gates and weight are promoted,
  // or a region casts them; in StepByStep in that of the gates.
  Tensor sequence;
  Tensor hidden;  // [b, h], f32 (f64 for f64 gates): h after the last step of each sequence
  Tensor cell;    // the same of c; undefined for gru()
};

// Long short-term memory (Hochreiter and Schmidhuber, "Long short-term memory", 1997, with the
// forget gate of Gers, Schmidhuber and Cummins, "Learning to forget", 2000):
//
//   i, f, g, o = gates + h W^T + bias      sigmoid of i, f and o, tanh of g
//   c = f * c + i * g
//   h = o * tanh(c)
//
// gates: [b, t, 4h]. In 16 bits products are those of 16-bit numbers, h being rounded for them,
// while sums, gates and c are f32. On CPUs the bits of a sequence depend neither on the other
// sequences of the batch nor on the number of threads; on devices they may depend on the size of
// the batch. In StepByStep elementary operations compute each step, and in 16 bits h W^T + bias is
// rounded before it is added. Throws ArgumentError for shapes that do not fit, and for lengths
// outside [0, t].
RecurrentResult lstm(const Tensor& gates, const RecurrentWeights& weights,
                     const RecurrentOptions& options = {});

// Gated recurrent unit (Cho et al., "Learning phrase representations using RNN encoder-decoder for
// statistical machine translation", 2014, in the form of PyTorch, in which r multiplies the product
// with the state rather than the state):
//
//   m          = h W^T + bias              of three parts: m_r, m_z, m_n
//   r, z       = sigmoid(gates + m)
//   n          = tanh(gates_n + r * m_n)
//   h          = (1 - z) * n + z * h
//
// gates: [b, t, 3h]. Otherwise like lstm(); the state h is f32, and is rounded for products only.
RecurrentResult gru(const Tensor& gates, const RecurrentWeights& weights,
                    const RecurrentOptions& options = {});

// While it exists, lstm() and gru() of this thread consist of elementary operations, step by step:
// for exporters.
class StepByStep {
 public:
  StepByStep();
  static bool is_on();

 private:
  Scoped<bool> scope_;
};

}  // namespace mezzo
