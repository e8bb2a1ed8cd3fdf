#include "mezzo/nn/parameter_names.h"

#include <string>
#include <unordered_set>
#include <utility>

#include "mezzo/core/shared_tensors.h"

namespace mezzo::nn {

ParameterNames parameter_names(const Module& net) {
  std::vector<NamedTensor> state = net.state();
  const std::vector<std::size_t> first = first_names(state);
  std::unordered_set<std::string> listed;
  for (const NamedTensor& entry : net.named_parameters()) listed.insert(entry.name);
  std::unordered_set<std::size_t> parameters;
  for (std::size_t i = 0; i < state.size(); ++i) {
    if (listed.contains(state[i].name)) parameters.insert(first[i]);
  }
  ParameterNames names;
  for (std::size_t i = 0; i < state.size(); ++i) {
    if (!parameters.contains(first[i])) continue;
    names.entries.push_back(std::move(state[i]));
    names.tensor_of.push_back(first[i]);
  }
  return names;
}

}  // namespace mezzo::nn
