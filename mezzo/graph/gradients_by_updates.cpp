#include "mezzo/graph/gradients_by_updates.h"

#include <algorithm>
#include <cstddef>
#include <set>

#include "mezzo/graph/memory_plan.h"
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

// What it takes to compute gradients later: the memory of their operands, which exist until then.
class Operands {
 public:
  Operands(const Program& program, const Links& links, const MemoryUse& memory)
      : program_(program), links_(links), memory_(memory) {
    calls_before_.reserve(program.nodes.size() + 1);
    calls_before_.push_back(0);
    for (const Node& node : program.nodes) {
      const bool makes_results = !node.is_host() && node.op->view == nullptr;
      calls_before_.push_back(calls_before_.back() + (makes_results ? 1 : 0));
    }
  }

  // The bytes of the node's inputs that would otherwise be free for results of calls between their
  // last reader and the update.
  std::size_t kept_until(std::size_t update, const Node& node) const {
    std::set<ValueId> blocks;
    for (const ValueId input : node.inputs) {
      if (input != kNoValue && is_kept_until(update, input)) blocks.insert(memory_.owner(input));
    }
    std::size_t bytes = 0;
    for (const ValueId block : blocks) bytes += program_.spec(block).bytes();
    return bytes;
  }

 private:
  bool is_kept_until(std::size_t update, ValueId input) const {
    const std::size_t maker = links_.maker(memory_.owner(input));
    if (maker == kNoNode || memory_.is_returned(input)) return false;
    if (is_parameter_copy(program_, program_.nodes[maker])) return false;
    const std::size_t last = memory_.last_read(input);
    return last < update && calls_before_[last + 1] < calls_before_[update];
  }

  const Program& program_;
  const Links& links_;
  const MemoryUse& memory_;
  std::vector<std::size_t> calls_before_;  // how many calls come before a node
};

}  // namespace

std::vector<bool> gradients_by_updates(const Program& program) {
  std::vector<bool> result(program.nodes.size(), false);
  if (program.device != kCpuDevice || is_kernel_disabled(Switch::kGradRows)) return result;
  const Links links(program);
  const MemoryUse memory(program);
  const Operands operands(program, links, memory);
  for (std::size_t i = 0; i < program.nodes.size(); ++i) {
    const Node& node = program.nodes[i];
    if (!is_f32_result(program, node)) continue;
    const std::vector<std::size_t>& readers = links.readers(node.outputs[0]);
    if (readers.size() != 1 || !links.is_only_for(node.outputs[0], readers[0])) continue;
    const std::size_t update = readers[0];
    if (!program.nodes[update].is_part) continue;
    const bool is_same = std::ranges::all_of(
        node.inputs, [&](ValueId input) { return memory.is_same_at(input, i, update); });
    const std::size_t bytes = program.spec(node.outputs[0]).bytes();
    result[i] =
        is_same && operands.kept_until(update, node) <= bytes && computes_by_rows(program, node);
  }
  return result;
}

}  // namespace mezzo::graph
