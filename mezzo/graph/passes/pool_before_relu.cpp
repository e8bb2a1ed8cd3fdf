#include <optional>
#include <vector>

#include "mezzo/graph/passes/passes.h"
#include "mezzo/graph/rewrite.h"
#include "mezzo/ops/all.h"

namespace mezzo::graph {
namespace {

// A ReLU and the pooling that reads it, and their gradients if there are any, as node indices.
struct Places {
  std::size_t relu = kNoNode;
  std::size_t pool = kNoNode;
  std::size_t pool_grad = kNoNode;
  std::size_t relu_grad = kNoNode;

  bool has_gradients() const { return relu_grad != kNoNode; }
};

class Finder {
 public:
  explicit Finder(const Program& program) : program_(program), links_(program), memory_(program) {}

  std::optional<Places> find() const {
    for (std::size_t i = 0; i < program_.nodes.size(); ++i) {
      if (!is_call(program_.nodes[i], ops::relu)) continue;
      const Places places = places_at(i);
      if (may_change_places(places)) return places;
    }
    return std::nullopt;
  }

 private:
  ValueId output(std::size_t node, std::size_t i = 0) const {
    return program_.nodes[node].outputs[i];
  }

  // The first reader of the value that is a call of that operation; kNoNode if there is none.
  std::size_t reader(ValueId value, const OpDef& op) const {
    for (const std::size_t i : links_.readers(value)) {
      if (is_call(program_.nodes[i], op)) return i;
    }
    return kNoNode;
  }

  // Without a pooling if anything else but the ReLU's gradient reads the ReLU.
  Places places_at(std::size_t relu) const {
    const ValueId between = output(relu);
    Places places{.relu = relu};
    const std::size_t pool = reader(between, ops::max_pool2d);
    if (pool == kNoNode || memory_.is_returned(between)) return places;
    places.relu_grad = reader(between, ops::relu_grad);
    const std::size_t readers = places.has_gradients() ? 2 : 1;
    if (links_.readers(between).size() != readers) return places;
    places.pool_grad = reader(output(pool, 1), ops::max_pool2d_grad);
    places.pool = pool;
    return places;
  }

  bool may_change_places(const Places& places) const {
    if (places.pool == kNoNode) return false;
    const ValueSpec& before = program_.spec(output(places.relu));
    const ValueSpec& behind = program_.spec(output(places.pool));
    if (behind.shape.numel() >= before.shape.numel()) return false;
    const ValueId positions = output(places.pool, 1);
    if (!places.has_gradients()) {
      return links_.readers(positions).empty() && !memory_.is_returned(positions);
    }
    return places.pool_grad != kNoNode && links_.is_only_for(positions, places.pool_grad) &&
           gradients_may_change_places(places);
  }

  bool gradients_may_change_places(const Places& places) const {
    const ValueId between = output(places.pool_grad);
    const ValueId last = output(places.relu_grad);
    return program_.nodes[places.relu_grad].inputs[0] == between &&
           links_.is_only_for(between, places.relu_grad) &&
           same_layout(program_.spec(between), program_.spec(last)) &&
           memory_.is_same_at(output(places.pool), places.pool, places.pool_grad);
  }

  const Program& program_;
  Links links_;
  MemoryUse memory_;
};

void swap_calls(Node& first, Node& second) {
  std::swap(first.op, second.op);
  std::swap(first.attrs, second.attrs);
  std::swap(first.path, second.path);
}

void change_places(Program& program, const Places& places) {
  Node& first = program.nodes[places.relu];
  Node& second = program.nodes[places.pool];
  const ValueId between = first.outputs[0];
  const ValueId pooled = second.outputs[0];
  const ValueId positions = second.outputs[1];
  swap_calls(first, second);
  program.values[between].spec = program.spec(pooled);
  // No call of the step has these results: another array is pooled.
  program.values[between].made_by = {};
  program.values[positions].made_by = {};
  first.outputs = {between, positions};
  first.over.clear();
  second.outputs = {pooled};
  second.over = {between};
  if (!places.has_gradients()) return;

  Node& first_grad = program.nodes[places.pool_grad];
  Node& second_grad = program.nodes[places.relu_grad];
  const ValueId grad = first_grad.inputs[0];
  const ValueId grad_between = first_grad.outputs[0];
  swap_calls(first_grad, second_grad);
  program.values[grad_between].spec = program.spec(pooled);
  program.values[grad_between].made_by = {};
  first_grad.inputs = {grad, pooled};
  first_grad.over = {grad};
  second_grad.inputs = {grad_between, positions};
  second_grad.over.clear();
}

}  // namespace

std::size_t pool_before_relu(Program& program) {
  std::size_t changes = 0;
  while (const std::optional<Places> places = Finder(program).find()) {
    change_places(program, *places);
    ++changes;
  }
  return changes;
}

}  // namespace mezzo::graph
