#include "mezzo/graph/verify.h"

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "mezzo/graph/rewrite.h"
#include "mezzo/graph/text.h"
#include "mezzo/ops/registry.h"

namespace mezzo::graph {
namespace {

// Which inputs an operation can do without: those that one of its samples does without.
bool may_lack(const std::vector<Sample>& samples, std::size_t input) {
  return std::ranges::any_of(samples, [&](const Sample& sample) {
    return input >= sample.inputs.size() || sample.inputs[input].absent;
  });
}

class Verifier {
 public:
  explicit Verifier(const Program& program)
      : program_(program), made_(program.values.size(), false), stands_(program.values.size()) {}

  void run() {
    check_given_values();
    for (const Node& node : program_.nodes) check_node(node);
    for (const ValueId output : program_.outputs) {
      if (!is_made(output)) fail("graph", "the program returns ", name(output), fault_of(output));
    }
  }

 private:
  template <class... Parts>
  void check(bool ok, const Node& node, const Parts&... parts) const {
    if (ok) return;
    fail("graph", parts..., ": ", to_text(program_, node, ValueNames(program_)));
  }
  std::string name(ValueId value) const { return ValueNames(program_)[value]; }

  bool is_made(ValueId value) const { return value < made_.size() && made_[value]; }
  // Why a value cannot be read.
  const char* fault_of(ValueId value) const {
    const auto makes = [value](const Node& node) {
      return std::ranges::find(node.outputs, value) != node.outputs.end();
    };
    return std::ranges::any_of(program_.nodes, makes) ? ", which is made later"
                                                      : ", which nothing makes";
  }

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
  void check_result(const Node& node, std::size_t i, const TensorSpec& inferred,
                    const Strides& strides) const;
  void infer(const Node& node, Inputs inputs) const;

  const Program& program_;
  std::vector<bool> made_;
  std::vector<Tensor> stands_;  // for the values that are made
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
    const auto listed = std::ranges::count(program_.inputs, id);
    check_arg(listed == (value.kind == ValueKind::kInput ? 1 : 0), "graph", name(id),
              " is listed as an input ", listed, " times. Inputs must be so once, others never");
    if (value.kind == ValueKind::kResult) continue;
    made_[i] = true;
    stands_[i] = stand_in(value.spec);
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
    check(!made_[output], node, name(output), " is made twice");
    check(std::ranges::count(node.outputs, output) == 1, node, name(output), " is made twice");
  }
  if (!node.is_host()) check_results(node);
  check_over(node);
  for (const ValueId output : node.outputs) {
    made_[output] = true;
    stands_[output] = stand_in(program_.spec(output));
  }
}

void Verifier::check_reads(const Node& node) const {
  for (const ValueId input : node.inputs) {
    if (input == kNoValue) continue;
    check(is_made(input), node, "reads ", name(input), fault_of(input));
  }
  if (node.is_host()) return;
  const std::vector<Sample> samples = node.op->samples();
  for (std::size_t i = 0; i < samples.at(0).inputs.size() || i < node.inputs.size(); ++i) {
    const bool given = i < node.inputs.size() && node.inputs[i] != kNoValue;
    check(given || may_lack(samples, i), node, "lacks input ", i);
  }
}

void Verifier::check_over(const Node& node) const {
  check(node.over.size() <= node.outputs.size(), node, "more values to write over than results");
  for (std::size_t i = 0; i < node.over.size(); ++i) {
    const ValueId over = node.over[i];
    if (over == kNoValue) continue;
    check(is_made(over), node, "writes over ", name(over), fault_of(over));
    check(program_.spec(over).bytes() == program_.spec(node.outputs[i]).bytes(), node,
          "writes over ", name(over), ", which takes ", program_.spec(over).bytes(),
          " bytes instead of ", program_.spec(node.outputs[i]).bytes());
  }
}

void Verifier::check_results(const Node& node) const {
  static const Tensor kAbsent;
  std::vector<const Tensor*> inputs;
  for (const ValueId input : node.inputs) {
    inputs.push_back(input == kNoValue ? &kAbsent : &stands_[input]);
  }
  try {
    infer(node, inputs);
  } catch (const std::bad_optional_access&) {
    check(false, node, "no view of that input is such a result");
  }
}

void Verifier::infer(const Node& node, Inputs inputs) const {
  if (node.op->view != nullptr) {
    const Tensor view = node.op->view(*inputs[0], node.attrs);
    check(node.outputs.size() == 1, node, "a view has one result");
    check_result(node, 0, {view.shape(), view.dtype()}, view.strides());
    return;
  }
  Infer infer(node.op->name, inputs, node.attrs);
  try {
    node.op->infer(infer);
  } catch (const ArgumentError& error) {
    check(false, node, error.what());
  }
  check(infer.outputs().size() == node.outputs.size(), node, "the operation has ",
        infer.outputs().size(), " results");
  for (std::size_t i = 0; i < node.outputs.size(); ++i) {
    const TensorSpec& inferred = infer.outputs()[i];
    check_result(node, i, inferred, strides_for(inferred.shape, inferred.format));
  }
}

void Verifier::check_result(const Node& node, std::size_t i, const TensorSpec& inferred,
                            const Strides& strides) const {
  const ValueSpec& spec = program_.spec(node.outputs[i]);
  // What is written over something takes its layout.
  const bool is_over = i < node.over.size() && is_made(node.over[i]) &&
                       same_layout(program_.spec(node.over[i]), spec.shape, spec.strides);
  const bool fits = spec.dtype == inferred.dtype && spec.shape == inferred.shape &&
                    (is_over || same_layout(spec, inferred.shape, strides));
  check(fits, node, "the operation makes ",
        to_text(ValueSpec{inferred.shape, inferred.dtype, strides}), " of these inputs");
}

}  // namespace

void verify(const Program& program) { Verifier(program).run(); }

}  // namespace mezzo::graph
