#include "mezzo/graph/norms_by_readers.h"

#include <algorithm>

#include "mezzo/graph/rewrite.h"
#include "mezzo/ops/batch_norm_again.h"
#include "mezzo/ops/registry.h"

namespace mezzo::graph {
namespace {

bool is_norm_again(const Program& program, const Node& node) {
  return is_norm_by_given(node) && node.phase == Phase::kBackward &&
         is_norm_worth_again(program.spec(node.outputs[0]).dtype, program.device) &&
         program.spec(node.outputs[0]).shape.numel() > 0;
}

bool reads_images(const Node& reader, ValueId value) {
  static const OpDef* const kGradWeight = find_op("conv2d_grad_weight");
  return is_call(reader, kGradWeight) && reader.inputs[0] != value && reader.inputs[1] == value;
}

}  // namespace

std::vector<bool> norms_by_readers(const Program& program) {
  std::vector<bool> result(program.nodes.size(), false);
  const std::vector<std::vector<std::size_t>> all_readers = readers(program);
  const MemoryUse memory(program);
  for (std::size_t i = 0; i < program.nodes.size(); ++i) {
    const Node& node = program.nodes[i];
    if (!is_norm_again(program, node) || memory.is_returned(node.outputs[0])) continue;
    result[i] = std::ranges::all_of(all_readers[node.outputs[0]], [&](std::size_t reader) {
      return reads_images(program.nodes[reader], node.outputs[0]) &&
             std::ranges::all_of(
                 node.inputs, [&](ValueId input) { return memory.is_same_at(input, i, reader); });
    });
  }
  return result;
}

}  // namespace mezzo::graph
