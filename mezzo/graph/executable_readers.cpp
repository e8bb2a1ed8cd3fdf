// Pending results, which their readers compute.
#include "mezzo/graph/executable.h"
#include "mezzo/graph/rewrite.h"
#include "mezzo/ops/batch_norm_attrs.h"
#include "mezzo/ops/fusion/pending_norm.h"
#include "mezzo/ops/fusion/result_rows.h"

namespace mezzo::graph {

Tensor Executable::result_when_read(const Instruction& instruction) const {
  const Node& node = *instruction.node;
  if (is_training_norm(node) || is_norm_by_given(node)) return norm_when_read(instruction);
  const ValueSpec& spec = program_.spec(node.outputs[0]);
  return result_when_asked(*node.op, instruction.inputs, node.attrs, spec.shape, spec.dtype);
}

// The normalisation uses the statistics that it has found, or given ones.
Tensor Executable::norm_when_read(const Instruction& instruction) {
  using In = BatchNormInput;
  const auto input = [&](std::size_t i) {
    return i < instruction.inputs.size() ? *instruction.inputs[i] : Tensor();
  };
  const bool finds = instruction.outputs.size() > 1;
  return make_pending_norm({input(In::kX), input(In::kWeight), input(In::kBias),
                            finds ? instruction.outputs[1] : input(In::kRunningMean),
                            finds ? instruction.outputs[2] : input(In::kRunningVar),
                            input(In::kResidual), instruction.node->attrs.as<BatchNormAttrs>()});
}

}  // namespace mezzo::graph
