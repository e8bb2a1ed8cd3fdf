// Batch normalizations that get their statistics from the convolutions before them.
#include <optional>
#include <vector>

#include "mezzo/core/scratch.h"
#include "mezzo/graph/executable.h"
#include "mezzo/graph/rewrite.h"
#include "mezzo/ops/all.h"
#include "mezzo/ops/batch_norm_attrs.h"

namespace mezzo::graph {

// Kernels on devices do not compute statistics for a following normalisation.
void Executable::find_norms() {
  if (!program_.device.is_cpu()) return;
  const MemoryUse memory(program_);
  const std::vector<std::size_t> made_by = makers(program_);
  std::vector<Instruction*> of_node(program_.nodes.size(), nullptr);
  for (Instruction& instruction : instructions_) {
    const auto i = static_cast<std::size_t>(instruction.node - program_.nodes.data());
    of_node[i] = &instruction;
    if (!is_training_norm(*instruction.node)) continue;
    const ValueId x = instruction.node->inputs[BatchNormInput::kX];
    const std::size_t maker = made_by[x];
    if (maker == kNoNode || !is_call(program_.nodes[maker], ops::conv2d)) continue;
    if (memory.is_same_at(x, maker, i)) of_node[maker]->norm = &instruction;
  }
}

// Runs the call. If a batch normalization reads the result, the kernel may also compute its
// statistics.
void Executable::call_kernel(Instruction& instruction) const {
  NormStatistics* const wanted =
      instruction.norm != nullptr ? &instruction.norm->statistics : nullptr;
  if (wanted != nullptr) *wanted = {};
  const FindStatistics find(wanted);
  const GiveStatistics give(instruction.statistics);
  std::optional<LendScratch> lend;
  // Scratch memory is host memory (core/scratch.h), so only an arena of the host can be lent.
  if (program_.device.is_cpu() && !memory_.free_ranges.empty()) {
    const ArenaRange& idle = memory_.free_ranges[instruction.node - program_.nodes.data()];
    lend.emplace(arena_, idle.offset, idle.bytes);
  }
  instruction.call->run(instruction.inputs, instruction.outputs, instruction.node->attrs);
  instruction.statistics = {};
}

}  // namespace mezzo::graph
