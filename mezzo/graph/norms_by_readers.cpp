#include "mezzo/graph/norms_by_readers.h"

#include <algorithm>

#include "mezzo/graph/rewrite.h"
#include "mezzo/ops/batch_norm_attrs.h"
#include "mezzo/ops/dispatcher/dispatch.h"
#include "mezzo/ops/fusion/pending_norm.h"

namespace mezzo::graph {
namespace {

bool adds_residual(const Node& norm) {
  return norm.inputs.size() > BatchNormInput::kResidual &&
         norm.inputs[BatchNormInput::kResidual] != kNoValue;
}

bool is_candidate(const Program& program, const Node& node) {
  if (!is_training_norm(node) && !is_norm_by_given(node)) return false;
  const ValueSpec& result = program.spec(node.outputs[0]);
  return is_norm_recompute_worth_it(result.dtype, program.device) && result.shape.numel() > 0;
}

bool normalises(const Program& program, const Node& reader, const Node& norm) {
  if (reader.is_host() || reader.op->view != nullptr) return false;
  StandIns call(program, reader);
  for (std::size_t i = 0; i < reader.inputs.size(); ++i) {
    if (reader.inputs[i] == norm.outputs[0] &&
        !normalises_input(*reader.op, call.inputs(), call.outputs(), reader.attrs, i,
                          adds_residual(norm))) {
      return false;
    }
  }
  return true;
}

// Whether the norm's inputs still have the same values when its reader runs.
bool reads_the_same(const MemoryUse& memory, const Node& norm, std::size_t at, std::size_t reader) {
  using In = BatchNormInput;
  for (std::size_t i = 0; i < norm.inputs.size(); ++i) {
    const bool is_parameter = i == In::kWeight || i == In::kBias;
    const bool is_same = is_parameter ? memory.is_same_parameter_at(norm.inputs[i], at, reader)
                                      : memory.is_same_at(norm.inputs[i], at, reader);
    if (!is_same) return false;
  }
  return true;
}

}  // namespace

std::vector<bool> norms_by_readers(const Program& program) {
  std::vector<bool> result(program.nodes.size(), false);
  const std::vector<std::vector<std::size_t>> all_readers = readers(program);
  const MemoryUse memory(program);
  for (std::size_t i = program.nodes.size(); i-- > 0;) {
    const Node& node = program.nodes[i];
    if (!is_candidate(program, node) || memory.is_returned(node.outputs[0])) continue;
    result[i] = std::ranges::all_of(all_readers[node.outputs[0]], [&](std::size_t reader) {
      // A norm that its readers compute reads nothing at its own place.
      return !result[reader] && reads_the_same(memory, node, i, reader) &&
             normalises(program, program.nodes[reader], node);
    });
  }
  return result;
}

}  // namespace mezzo::graph
