#include "mezzo/graph/program.h"

#include <algorithm>
#include <utility>

#include "mezzo/core/storage.h"

namespace mezzo::graph {
namespace {

class NoContents final : public LazyContents {
 public:
  void fill(void* /*destination*/) override {
    fail("graph", "the elements of a tensor that has only a shape were requested");
  }
  bool is_current() const override { return true; }
};

}  // namespace

ValueId Program::add_input(ValueSpec spec, std::string name) {
  values.push_back({.kind = ValueKind::kInput, .spec = spec, .name = std::move(name)});
  inputs.push_back(static_cast<ValueId>(values.size() - 1));
  return inputs.back();
}

ValueId Program::add_state(const Tensor& tensor, std::string name) {
  values.push_back({.kind = ValueKind::kState,
                    .spec = ValueSpec::of(tensor),
                    .name = std::move(name),
                    .tensor = tensor});
  return static_cast<ValueId>(values.size() - 1);
}

ValueId Program::add_state(ValueSpec spec, std::string name) {
  values.push_back({.kind = ValueKind::kState, .spec = spec, .name = std::move(name)});
  return static_cast<ValueId>(values.size() - 1);
}

ValueId Program::add_result(ValueSpec spec) {
  values.push_back({.kind = ValueKind::kResult, .spec = spec});
  return static_cast<ValueId>(values.size() - 1);
}

std::vector<std::size_t> makers(const Program& program) {
  std::vector<std::size_t> result(program.values.size(), kNoNode);
  for (std::size_t i = 0; i < program.nodes.size(); ++i) {
    for (const ValueId output : program.nodes[i].outputs) result[output] = i;
  }
  return result;
}

std::vector<std::vector<std::size_t>> readers(const Program& program) {
  std::vector<std::vector<std::size_t>> result(program.values.size());
  for (std::size_t i = 0; i < program.nodes.size(); ++i) {
    for (const ValueId input : program.nodes[i].inputs) {
      if (input != kNoValue) result[input].push_back(i);
    }
  }
  return result;
}

void join_calls(Program& program, ValueId between, ValueId result) {
  const Value& inner = program.values[between];
  if (inner.made_by.call.op.empty()) return;
  std::vector<CallId> joined = inner.joined;
  joined.push_back(inner.made_by.call);
  std::vector<CallId>& all = program.values[result].joined;
  all.insert(all.begin(), joined.begin(), joined.end());
}

void replace_uses(Program& program, ValueId from, ValueId to) {
  for (Node& node : program.nodes) {
    std::ranges::replace(node.inputs, from, to);
    std::ranges::replace(node.over, from, to);
  }
  std::ranges::replace(program.outputs, from, to);
}

Tensor stand_in(const ValueSpec& spec, Device device) {
  return stand_in(spec, device, Ref<LazyContents>(new NoContents));
}

Tensor stand_in(const ValueSpec& spec, Device device, Ref<LazyContents> contents) {
  const auto places = static_cast<std::size_t>(extent_of(spec.shape, spec.strides, 0).end);
  Ref<Storage> storage =
      make_ref<Storage>(places * size_of(spec.dtype), device, std::move(contents));
  return Tensor(make_ref<TensorImpl>(std::move(storage), 0, spec.shape, spec.strides, spec.dtype));
}

}  // namespace mezzo::graph
