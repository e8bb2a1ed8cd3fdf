#include "mezzo/graph/passes/passes.h"
#include "mezzo/graph/passes/recompute.h"

namespace mezzo::graph {

std::size_t recompute_casts(Program& program) {
  const MemoryUse memory(program);
  // This keeps half the bytes, even if nothing else keeps the 16-bit values.
  const auto widens = [&](std::size_t node, std::size_t reader) {
    const Node& cast = program.nodes[node];
    if (!is_cast(cast)) return false;
    const ValueId source = cast.inputs[0];
    return is_lower(program.spec(source).dtype) && memory.is_same_at(source, node, reader) &&
           program.spec(cast.outputs[0]).dtype == DType::kF32;
  };
  const auto again = [](const Node& cast, ValueId result) {
    return Node{.op = cast.op, .attrs = cast.attrs, .inputs = cast.inputs, .outputs = {result}};
  };
  return recompute(program, kept_results(program, widens), again);
}

}  // namespace mezzo::graph
