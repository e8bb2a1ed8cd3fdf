// Batch normalizations that get their statistics from the convolutions before them, and such that
// are left to their readers.
#include <vector>

#include "mezzo/graph/executable.h"
#include "mezzo/graph/rewrite.h"
#include "mezzo/ops/batch_norm_again.h"
#include "mezzo/ops/batch_norm_attrs.h"
#include "mezzo/ops/registry.h"
#include "mezzo/ops/result_rows.h"

namespace mezzo::graph {

// Kernels on devices look for none.
void Executable::find_norms() {
  static const OpDef* const kConv2d = find_op("conv2d");
  if (program_.device.type != DeviceType::kCpu) return;
  const MemoryUse memory(program_);
  const std::vector<std::size_t> made_by = makers(program_);
  std::vector<Instruction*> of_node(program_.nodes.size(), nullptr);
  for (Instruction& instruction : instructions_) {
    const auto i = static_cast<std::size_t>(instruction.node - program_.nodes.data());
    of_node[i] = &instruction;
    if (!is_training_norm(*instruction.node)) continue;
    const ValueId x = instruction.node->inputs[BatchNormInput::kX];
    const std::size_t maker = made_by[x];
    if (maker == kNoNode || !is_call(program_.nodes[maker], kConv2d)) continue;
    if (memory.is_same_at(x, maker, i)) of_node[maker]->norm = &instruction;
  }
}

Tensor Executable::result_when_read(const Instruction& instruction) const {
  const Node& node = *instruction.node;
  if (is_training_norm(node) || is_norm_by_given(node)) return norm_when_read(instruction);
  const ValueSpec& spec = program_.spec(node.outputs[0]);
  return result_when_asked(*node.op, instruction.inputs, node.attrs, spec.shape, spec.dtype);
}

// By the statistics that it has found, or by given ones.
Tensor Executable::norm_when_read(const Instruction& instruction) {
  using In = BatchNormInput;
  const auto input = [&](std::size_t i) {
    return i < instruction.inputs.size() ? *instruction.inputs[i] : Tensor();
  };
  const bool finds = instruction.outputs.size() > 1;
  return norm_when_asked({input(In::kX), input(In::kWeight), input(In::kBias),
                          finds ? instruction.outputs[1] : input(In::kRunningMean),
                          finds ? instruction.outputs[2] : input(In::kRunningVar),
                          input(In::kResidual), instruction.node->attrs.as<BatchNormAttrs>()});
}

// Runs the call; where a batch normalization reads the result, its statistics may be found on the
// way.
void Executable::call_kernel(Instruction& instruction) {
  NormStatistics* const wanted =
      instruction.norm != nullptr ? &instruction.norm->statistics : nullptr;
  if (wanted != nullptr) *wanted = {};
  const FindStatistics find(wanted);
  const GiveStatistics give(instruction.statistics);
  instruction.call->run(instruction.inputs, instruction.outputs, instruction.node->attrs);
  instruction.statistics = {};
}

}  // namespace mezzo::graph
