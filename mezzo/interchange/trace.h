// Tracing: records the calls of operations that make up a network's forward pass.
#pragma once

#include <string>
#include <vector>

#include "mezzo/nn/module.h"
#include "mezzo/ops/dispatcher/op.h"

namespace mezzo::interchange {

struct TracedCall {
  const OpDef* op = nullptr;
  Attrs attrs{};
  std::vector<Tensor> inputs{};  // undefined: an optional input that was not given
  std::vector<Tensor> outputs{};
  std::string path{};  // of the module that made the call; empty for the network itself
};

// Tensors are matched by TensorImpl: a call's input is another call's result if both are the same.
struct Trace {
  nn::Tensors inputs;
  nn::Tensors outputs;
  std::vector<TracedCall> calls;  // in order, views included
};

// Runs the network once on the inputs, in inference mode, and records every call. Throws
// UnsupportedError if the network reads what it has changed in place, since a trace records only
// calls.
Trace trace_forward(nn::Module& net, const Tensor& input);
Trace trace_forward(nn::Module& net, const nn::Tensors& inputs);

// The part of a trace that needs no tensors. Comparing a second trace with the first one shows what
// depends on the size of the batch.
struct CallSizes {
  const OpDef* op = nullptr;
  Attrs attrs{};
  std::vector<Shape> inputs{};  // [] for an undefined input
  std::vector<Shape> outputs{};
};

struct TraceSizes {
  std::vector<Shape> inputs;
  std::vector<Shape> outputs;
  std::vector<CallSizes> calls;
};

TraceSizes sizes_of(const Trace& trace);

}  // namespace mezzo::interchange
