#include "mezzo/graph/rewrite.h"

#include <algorithm>
#include <iterator>
#include <numeric>

#include "mezzo/ops/all.h"
#include "mezzo/ops/batch_norm_attrs.h"

namespace mezzo::graph {
namespace {

// The attributes of a batch normalization; null for any other call.
const BatchNormAttrs* norm_attrs(const Node& node) {
  const bool is_norm = node.op == &ops::batch_norm || node.op == &ops::batch_norm_add_relu;
  return is_norm ? &node.attrs.as<BatchNormAttrs>() : nullptr;
}

}  // namespace

bool is_cast(const Node& node) { return node.op == &ops::cast; }

bool is_call(const Node& node) {
  return !node.is_host() && node.policy == nullptr && !node.paint.has_value();
}

bool is_call(const Node& node, const OpDef& op) { return node.op == &op && is_call(node); }

bool is_training_norm(const Node& node) {
  const BatchNormAttrs* const attrs = norm_attrs(node);
  return attrs != nullptr && attrs->training;
}

bool is_norm_by_given(const Node& node) {
  const BatchNormAttrs* const attrs = norm_attrs(node);
  return attrs != nullptr && !attrs->training;
}

StandIns::StandIns(const Program& program, const Node& node) {
  const auto stand_in_for = [&](ValueId value) {
    return value != kNoValue ? stand_in(program.spec(value), program.device) : Tensor();
  };
  std::ranges::transform(node.inputs, std::back_inserter(inputs_), stand_in_for);
  std::ranges::transform(node.outputs, std::back_inserter(outputs_), stand_in_for);
  for (const Tensor& input : inputs_) pointers_.push_back(&input);
}

std::size_t count_casts(const Program& program) {
  return static_cast<std::size_t>(std::ranges::count_if(program.nodes, is_cast));
}

bool is_update_between(const Program& program, std::size_t first, std::size_t last) {
  return std::any_of(program.nodes.begin() + static_cast<std::ptrdiff_t>(first),
                     program.nodes.begin() + static_cast<std::ptrdiff_t>(last),
                     [](const Node& node) { return node.phase == Phase::kUpdate; });
}

bool same_layout(const ValueSpec& a, const ValueSpec& b) {
  if (a.shape != b.shape) return false;
  if (a.shape.numel() == 0) return true;
  for (std::size_t i = 0; i < a.shape.rank(); ++i) {
    if (a.shape[i] != 1 && a.strides[i] != b.strides[i]) return false;
  }
  return true;
}

std::size_t erase_nodes(Program& program, const std::vector<bool>& marked) {
  std::vector<bool> is_there(program.values.size());
  for (std::size_t i = 0; i < is_there.size(); ++i) {
    is_there[i] = program.values[i].kind != ValueKind::kResult;
  }
  std::vector<Node> kept;
  kept.reserve(program.nodes.size());
  for (std::size_t i = 0; i < program.nodes.size(); ++i) {
    if (marked[i]) continue;
    for (const ValueId output : program.nodes[i].outputs) is_there[output] = true;
    kept.push_back(std::move(program.nodes[i]));
  }
  const std::size_t erased = program.nodes.size() - kept.size();
  program.nodes = std::move(kept);
  for (Node& node : program.nodes) {
    std::ranges::replace_if(
        node.over, [&](ValueId value) { return value != kNoValue && !is_there[value]; }, kNoValue);
  }
  return erased;
}

MemoryUse::MemoryUse(const Program& program)
    : owners_(program.values.size()),
      may_change_(program.values.size(), false),
      is_returned_(program.values.size(), false),
      last_read_(program.values.size(), 0) {
  std::iota(owners_.begin(), owners_.end(), ValueId{0});
  for (std::size_t i = 0; i < program.values.size(); ++i) {
    may_change_[i] = program.values[i].kind == ValueKind::kState;
  }
  for (std::size_t i = 0; i < program.nodes.size(); ++i) add_node(program, i);
  for (const ValueId output : program.outputs) is_returned_[owner(output)] = true;
}

void MemoryUse::add_node(const Program& program, std::size_t i) {
  const Node& node = program.nodes[i];
  const bool is_behind_work = i > 0 && program.nodes[i - 1].is_host();
  const bool is_in_place = is_behind_work && program.nodes[i - 1].time != HostWorkTime::kCanWait;
  const auto count = [&](std::vector<std::size_t>& work_before, bool is_more) {
    work_before.push_back((i == 0 ? 0 : work_before[i - 1]) + static_cast<std::size_t>(is_more));
  };
  count(host_work_before_, is_behind_work);
  count(work_in_place_before_, is_in_place);
  for (const ValueId input : node.inputs) {
    if (input == kNoValue) continue;
    last_read_[owner(input)] = i;
    if (node.is_host()) may_change_[owner(input)] = true;
  }
  if (!node.is_host() && node.op->view != nullptr) {
    owners_[node.outputs[0]] = owner(node.inputs[0]);
  }
  if (node.is_part) add_part(program, i);
}

void MemoryUse::add_part(const Program& program, std::size_t i) {
  Part part{.node = i, .changed = {}};
  for (const ValueId input : program.nodes[i].inputs) {
    if (input != kNoValue) part.changed.push_back(owner(input));
  }
  for (ValueId v = 0; v < program.values.size(); ++v) {
    const Tensor& state = program.values[v].tensor;
    const auto shares = [&](const Tensor& leaf) { return leaf.storage() == state.storage(); };
    const bool is_changed = state.defined() && std::ranges::any_of(program.nodes[i].leaves, shares);
    if (is_changed) part.changed.push_back(owner(v));
  }
  parts_.push_back(std::move(part));
}

bool MemoryUse::is_changed_between(ValueId value, std::size_t first, std::size_t second,
                                   const std::vector<std::size_t>& work_before) const {
  const auto [begin, end] = std::minmax(first, second);
  std::size_t changes = work_before[end] - work_before[begin];
  for (const Part& part : parts_) {
    if (part.node < begin || part.node >= end) continue;
    if (std::ranges::count(part.changed, owner(value)) == 0) --changes;
  }
  return changes > 0;
}

Links::Links(const Program& program)
    : program_(program),
      makers_(makers(program)),
      readers_(mezzo::graph::readers(program)),
      is_returned_(program.values.size(), false) {
  for (const ValueId output : program.outputs) is_returned_[output] = true;
}

std::size_t Links::maker(ValueId value, const OpDef& op) const {
  if (value == kNoValue || makers_[value] == kNoNode) return kNoNode;
  return is_call(program_.nodes[makers_[value]], op) ? makers_[value] : kNoNode;
}

}  // namespace mezzo::graph
