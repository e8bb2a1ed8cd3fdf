// Tracing: the calls of operations that a network's forward pass consists of.
#pragma once

#include <string>
#include <vector>

#include "mezzo/nn/module.h"
#include "mezzo/ops/dispatcher/op.h"

namespace mezzo::interchange {

struct TracedCall {
  const OpDef* op = nullptr;
  Attrs attrs{};
  std::vector<Tensor> inputs{};  // an undefined one: an optional input that was not given
  std::vector<Tensor> outputs{};
  std::string path{};  // of the module that made the call; empty for the network itself
};

// A tensor is the result of a call, or what another call reads, if it is the same TensorImpl.
struct Trace {
  Tensor input;
  Tensor output;
  std::vector<TracedCall> calls;  // in their order, views included
};

// Runs the network once on the input, in inference mode, and notes every call. Throws
// UnsupportedError if it reads what it has changed in place: a trace knows calls only.
Trace trace_forward(nn::Module& net, const Tensor& input);

// What a trace says without its tensors: a second one beside the first shows what depends on the
// input's size.
struct CallSizes {
  const OpDef* op = nullptr;
  Attrs attrs{};
  std::vector<Shape> inputs{};  // of an undefined one: []
  std::vector<Shape> outputs{};
};

struct TraceSizes {
  Shape input;
  Shape output;
  std::vector<CallSizes> calls;
};

TraceSizes sizes_of(const Trace& trace);

}  // namespace mezzo::interchange
