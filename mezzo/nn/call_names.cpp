#include "mezzo/nn/call_names.h"

#include "mezzo/nn/module.h"
#include "mezzo/ops/dispatcher/node.h"

namespace mezzo::nn {

CallId CallNames::name(const FinishedCall& call) {
  CallId id{.path = current_module_path(), .op = call.op.name};
  if (const Node* node = differentiated_node()) {
    const auto known = nodes_.find(node->sequence());
    const bool is_known = known != nodes_.end();
    id.gradient_of = is_known ? known->second.name : node->op().name;
    // A forward pass that is recomputed here has modules of its own.
    if (id.path.empty() && is_known) id.path = known->second.path;
  }
  id.number = counts_[id]++;
  for (const Tensor& output : call.outputs) {
    const Node* node = output.defined() ? node_of(output) : nullptr;
    if (node == nullptr || &node->op() != &call.op) continue;
    nodes_.try_emplace(node->sequence(), Named{id.path, id.name_in_module()});
  }
  return id;
}

std::vector<ResultId> CallNames::names(const FinishedCall& call) {
  if (!call.names.empty()) return {call.names.begin(), call.names.end()};
  std::vector<ResultId> result;
  const CallId id = name(call);
  for (std::size_t i = 0; i < call.outputs.size(); ++i) result.push_back({id, i});
  return result;
}

void CallNames::begin_step() {
  nodes_.clear();
  counts_.clear();
}

}  // namespace mezzo::nn
