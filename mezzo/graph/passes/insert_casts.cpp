#include "mezzo/graph/passes/insert_casts.h"

#include <map>
#include <utility>
#include <vector>

#include "mezzo/graph/passes/cast_plan.h"
#include "mezzo/graph/passes/infer_specs.h"
#include "mezzo/ops/all.h"
#include "mezzo/ops/cast.h"

namespace mezzo::graph {
namespace {

class Inserter {
 public:
  explicit Inserter(Program& program)
      : program_(program), plan_(CastPlanner(program).plan()), changed_(program.values.size()) {}

  std::size_t run() {
    std::vector<Node> old = std::exchange(program_.nodes, {});
    // The plan lists the casts for the inputs of nodes and for outputs in the order of this loop.
    auto next = plan_.inputs.begin();
    for (std::size_t i = 0; i < old.size(); ++i) {
      for (; next != plan_.inputs.end() && next->node == i; ++next) {
        old[i].inputs[next->input] = value_for(*next, old[i]);
      }
      infer(old[i]);
      old[i].policy = nullptr;
      old[i].paint.reset();
      program_.nodes.push_back(std::move(old[i]));
    }
    for (; next != plan_.inputs.end(); ++next) {
      program_.outputs[next->input] = value_for(*next, Node{});
    }
    return casts_.size();
  }

 private:
  // The value to read: the source, or a cast of it, which is made now if it does not exist.
  ValueId value_for(const InputCast& input, const Node& reader) {
    if (!input.rounded_to.has_value()) return cast_of(input.source, input.dtype, reader);
    const ValueId rounded = cast_of(input.source, *input.rounded_to, reader);
    return cast_of(rounded, input.dtype, reader);
  }

  ValueId cast_of(ValueId source, DType dtype, const Node& reader) {
    if (program_.spec(source).dtype == dtype) return source;
    const auto [found, is_new] = casts_.try_emplace({source, dtype}, kNoValue);
    if (is_new) found->second = add_cast(source, dtype, reader);
    return found->second;
  }

  ValueId add_cast(ValueId source, DType dtype, const Node& reader) {
    Node node;
    node.op = &ops::cast;
    node.attrs = cast_attrs(dtype);
    node.inputs = {source};
    node.phase = reader.phase;
    node.path = reader.path;
    node.reason =
        reader.is_host() ? "the program returns it" : concat(reader.op->name, " reads it");
    const ValueSpec& spec = program_.spec(source);
    const ValueId result = program_.add_result(infer_specs(ops::cast, node.attrs, {&spec}).front());
    node.outputs = {result};
    program_.nodes.push_back(std::move(node));
    changed_.push_back(true);
    return result;
  }

  // Infers the node's results again.
  void infer(Node& node) {
    bool any_changed = false;
    std::vector<const ValueSpec*> inputs;
    for (const ValueId input : node.inputs) {
      inputs.push_back(input != kNoValue ? &program_.spec(input) : nullptr);
      any_changed = any_changed || (input != kNoValue && changed_[input]);
    }
    if (node.is_host() || !any_changed) return;
    const std::vector<ValueSpec> specs = infer_specs(*node.op, node.attrs, inputs);
    for (std::size_t i = 0; i < node.outputs.size(); ++i) {
      const ValueId output = node.outputs[i];
      changed_[output] = program_.spec(output) != specs[i];
      program_.values[output].spec = specs[i];
      if (i < node.over.size()) keep_over(node.over[i], specs[i]);
    }
  }

  // A result may only overwrite a value of its own size.
  void keep_over(ValueId& over, const ValueSpec& result) const {
    if (over != kNoValue && program_.spec(over).dtype != result.dtype) over = kNoValue;
  }

  Program& program_;
  CastPlan plan_;
  std::vector<bool> changed_;  // by value: has changed
  std::map<std::pair<ValueId, DType>, ValueId> casts_;
};

}  // namespace

std::size_t insert_casts(Program& program) { return Inserter(program).run(); }

}  // namespace mezzo::graph
