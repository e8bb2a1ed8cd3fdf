#include "mezzo/numbers/operand_sources.h"

#include <string_view>

#include "mezzo/core/error.h"
#include "mezzo/ops/cast.h"
#include "mezzo/ops/dispatcher/node.h"

namespace mezzo::numbers {
namespace {

// The parameter that a tensor is a 16-bit copy of: it is not made by a call of the step. A captured
// program reads the copy without its history.
Tensor parameter_of(const Tensor& tensor) {
  if (const Tensor parameter = copied_parameter(tensor); parameter.defined()) return parameter;
  Node* node = node_of(tensor);
  if (node == nullptr || node->op().name != std::string_view("cast")) return {};
  const NodeInput& input = node->inputs()[0];
  return input.leaf ? Tensor(input.leaf) : Tensor();
}

}  // namespace

OperandSources::Place OperandSources::place_of(const Tensor& tensor) {
  return {tensor.storage().get(), tensor.offset()};
}

void OperandSources::name(const Tensor& tensor, Source source, const std::string& name) {
  if (tensor.defined()) storages_[tensor.storage().get()] = {.source = source, .name = name};
}

void OperandSources::name_state(const nn::Module& net) {
  for (const NamedTensor& entry : net.state()) name(entry.tensor, Source::kParameter, entry.name);
}

void OperandSources::name_batch(const Batch& batch) {
  for (const NamedTensor& entry : named_tensors_of(batch)) {
    name(entry.tensor, Source::kBatch, entry.name);
  }
}

void OperandSources::clear() {
  results_.clear();
  storages_.clear();
}

Origin OperandSources::of(const Tensor& tensor) {
  if (const auto known = results_.find(place_of(tensor)); known != results_.end()) {
    return known->second;
  }
  const void* storage = tensor.storage().get();
  if (const auto known = storages_.find(storage); known != storages_.end()) return known->second;
  const Tensor parameter = parameter_of(tensor);
  if (!parameter.defined()) return {};
  const auto known = storages_.find(parameter.storage().get());
  if (known == storages_.end()) return {};
  return storages_[storage] = known->second;  // the backward pass reads it without its history
}

void OperandSources::add_view(const Tensor& input, const Tensor& view) {
  if (!input.defined()) return;
  Origin origin = of(input);
  results_[place_of(view)] = std::move(origin);
}

void OperandSources::add_result(const Tensor& result, std::size_t call, std::size_t output) {
  results_[place_of(result)] = {.source = Source::kCall, .call = call, .output = output};
}

std::vector<NamedTensor> named_tensors_of(const Batch& batch) {
  std::vector<NamedTensor> named;
  const auto add = [&named](const nn::Tensors& tensors, const char* what) {
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      if (tensors[i].defined()) named.push_back({concat(what, " ", i), tensors[i]});
    }
  };
  add(batch.inputs, "input");
  add(batch.labels, "label");
  return named;
}

}  // namespace mezzo::numbers
