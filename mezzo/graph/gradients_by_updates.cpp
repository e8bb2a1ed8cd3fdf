#include "mezzo/graph/gradients_by_updates.h"

#include <algorithm>

#include "mezzo/graph/rewrite.h"
#include "mezzo/ops/dispatcher/dispatch.h"
#include "mezzo/ops/fusion/result_rows.h"

namespace mezzo::graph {
namespace {

bool is_f32_result(const Program& program, const Node& node) {
  if (node.is_host() || node.op->view != nullptr || node.outputs.size() != 1) return false;
  const ValueSpec& result = program.spec(node.outputs[0]);
  return result.dtype == DType::kF32 && result.shape.numel() > 0 &&
         same_layout(result, ValueSpec::dense(result.shape, result.dtype));
}

bool computes_by_rows(const Program& program, const Node& node) {
  StandIns call(program, node);
  return gives_rows(*node.op, call.inputs(), call.outputs(), node.attrs);
}

}  // namespace

std::vector<bool> gradients_by_updates(const Program& program) {
  std::vector<bool> result(program.nodes.size(), false);
  if (program.device != kCpuDevice || is_kernel_disabled(Switch::kGradRows)) return result;
  const Links links(program);
  const MemoryUse memory(program);
  for (std::size_t i = 0; i < program.nodes.size(); ++i) {
    const Node& node = program.nodes[i];
    if (!is_f32_result(program, node)) continue;
    const std::vector<std::size_t>& readers = links.readers(node.outputs[0]);
    if (readers.size() != 1 || !links.is_only_for(node.outputs[0], readers[0])) continue;
    const std::size_t update = readers[0];
    if (!program.nodes[update].is_part) continue;
    const bool is_same = std::ranges::all_of(
        node.inputs, [&](ValueId input) { return memory.is_same_at(input, i, update); });
    result[i] = is_same && computes_by_rows(program, node);
  }
  return result;
}

}  // namespace mezzo::graph
