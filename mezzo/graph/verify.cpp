#include "mezzo/graph/verify.h"

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "mezzo/graph/passes/infer_specs.h"
#include "mezzo/graph/rewrite.h"
#include "mezzo/graph/text.h"
#include "mezzo/ops/dispatcher/sample.h"

namespace mezzo::graph {
namespace {

// Whether an operation's input is optional: it is absent in one of its samples.
bool may_lack(const std::vector<Sample>& samples, std::size_t input) {
  return std::ranges::any_of(samples, [&](const Sample& sample) {
    return input >= sample.inputs.size() || sample.inputs[input].absent;
  });
}

// Parts of messages, built only for an error: names need a pass over the whole program.
struct Called {
  const Program& program;
  ValueId value;
};
void append_text(std::string& out, const Called& called) {
  out += ValueNames(called.program)[called.value];
}

// A value that is not defined yet.
struct Missing {
  const Program& program;
  ValueId value;
};
void append_text(std::string& out, const Missing& missing) {
  const auto makes = [&](const Node& node) {
    return std::ranges::find(node.outputs, missing.value) != node.outputs.end();
  };
  const bool comes = std::ranges::any_of(missing.program.nodes, makes);
  out += concat(Called{missing.program, missing.value},
                comes ? ", which is computed later" : ", which nothing computes");
}

class Verifier {
 public:
  explicit Verifier(const Program& program)
      : program_(program), made_(program.values.size(), false) {}

  void run() {
    check_given_values();
    for (const Node& node : program_.nodes) check_node(node);
    for (const ValueId output : program_.outputs) {
      check_arg(is_made(output), "graph", "the program returns ", Missing{program_, output});
    }
  }

 private:
  template <class... Parts>
  void check(bool ok, const Node& node, const Parts&... parts) const {
    if (!ok) fail("graph", parts..., ": ", to_text(program_, node, ValueNames(program_)));
  }
  Called name(ValueId value) const { return {program_, value}; }

  bool is_made(ValueId value) const { return value < made_.size() && made_[value]; }
  void check_spec(ValueId value) const {
    const ValueSpec& spec = program_.spec(value);
    const bool fits = spec.shape.rank() == spec.strides.rank() &&
                      std::ranges::all_of(spec.shape, [](auto size) { return size >= 0; }) &&
                      std::ranges::all_of(spec.strides, [](auto stride) { return stride >= 0; });
    check_arg(fits, "graph", name(value), " has the shape ", spec.shape, " and the strides ",
              spec.strides, ". There must be one stride per size, and none negative");
  }

  void check_given_values();
  void check_node(const Node& node);
  void check_reads(const Node& node) const;
  void check_over(const Node& node) const;
  void check_results(const Node& node) const;
  std::vector<ValueSpec> infer(const Node& node) const;

  const Program& program_;
  std::vector<bool> made_;
};

void Verifier::check_given_values() {
  std::set<std::string> names;
  for (std::size_t i = 0; i < program_.values.size(); ++i) {
    const auto id = static_cast<ValueId>(i);
    const Value& value = program_.values[i];
    check_spec(id);
    if (!value.name.empty()) {
      check_arg(names.insert(value.name).second, "graph", "two values are called ", value.name,
                ". A text could not tell them apart");
    }
    check_arg(!value.tensor.defined() || value.tensor.device() == program_.device, "graph",
              name(id), " is not on ", program_.device, " like the program. Use to()");
    const auto listed = std::ranges::count(program_.inputs, id);
    check_arg(listed == (value.kind == ValueKind::kInput ? 1 : 0), "graph", name(id),
              " is listed as an input ", listed,
              " times. Inputs must be listed once, other values never");
    if (value.kind == ValueKind::kResult) continue;
    made_[i] = true;
  }
}

void Verifier::check_node(const Node& node) {
  check_reads(node);
  check(!node.is_host() || node.outputs.empty(), node, "host work has results");
  check(node.is_host() || !node.outputs.empty(), node, "a call has no result");
  for (const ValueId output : node.outputs) {
    check(output < program_.values.size(), node, "a result is undefined");
    check(program_.values[output].kind == ValueKind::kResult, node, "the result ", name(output),
          " is an input or a state of the program");
    check(!made_[output], node, name(output), " is computed twice");
    check(std::ranges::count(node.outputs, output) == 1, node, name(output), " is computed twice");
  }
  if (!node.is_host()) check_results(node);
  check_over(node);
  for (const ValueId output : node.outputs) made_[output] = true;
}

void Verifier::check_reads(const Node& node) const {
  for (const ValueId input : node.inputs) {
    if (input == kNoValue) continue;
    check(is_made(input), node, "reads ", Missing{program_, input});
  }
  if (node.is_host()) return;
  if (node.op->samples == nullptr) return;  // a user's operation, which is not in the registry
  const std::vector<Sample> samples = node.op->samples();
  for (std::size_t i = 0; i < samples.at(0).inputs.size() || i < node.inputs.size(); ++i) {
    const bool given = i < node.inputs.size() && node.inputs[i] != kNoValue;
    check(given || may_lack(samples, i), node, "lacks input ", i);
  }
}

void Verifier::check_over(const Node& node) const {
  for (std::size_t i = 0; i < node.over.size(); ++i) {
    const ValueId over = node.over[i];
    if (over == kNoValue) continue;
    check(i < node.outputs.size(), node, "more values to overwrite than results");
    check(is_made(over), node, "writes over ", Missing{program_, over});
    check(program_.spec(over).bytes() == program_.spec(node.outputs[i]).bytes(), node,
          "writes over ", name(over), ", which takes ", program_.spec(over).bytes(),
          " bytes instead of ", program_.spec(node.outputs[i]).bytes());
  }
}

void Verifier::check_results(const Node& node) const {
  const std::vector<ValueSpec> inferred = infer(node);
  check(inferred.size() == node.outputs.size(), node, "the operation has ", inferred.size(),
        " results");
  for (std::size_t i = 0; i < inferred.size(); ++i) {
    const ValueSpec& spec = program_.spec(node.outputs[i]);
    // A result takes the layout of the value that it overwrites.
    const bool is_over = i < node.over.size() && is_made(node.over[i]) &&
                         same_layout(spec, program_.spec(node.over[i]));
    const bool fits = spec.dtype == inferred[i].dtype && spec.shape == inferred[i].shape &&
                      (is_over || same_layout(spec, inferred[i]));
    check(fits, node, "the operation computes ", inferred[i], " of these inputs");
  }
}

std::vector<ValueSpec> Verifier::infer(const Node& node) const {
  std::vector<const ValueSpec*> inputs;
  for (const ValueId input : node.inputs) {
    inputs.push_back(input == kNoValue ? nullptr : &program_.spec(input));
  }
  std::string fault;
  try {
    return infer_specs(*node.op, node.attrs, inputs);
  } catch (const ArgumentError& error) {
    fault = error.what();
  } catch (const std::bad_optional_access&) {
    fault = "such a result is not a view of that input";
  }
  check(false, node, fault);
  return {};
}

}  // namespace

void verify(const Program& program) { Verifier(program).run(); }

}  // namespace mezzo::graph
