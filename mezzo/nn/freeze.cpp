#include "mezzo/nn/freeze.h"

#include <algorithm>
#include <unordered_set>

#include <fnmatch.h>

#include "mezzo/nn/batch_norm.h"
#include "mezzo/ops/capture_hook.h"

namespace mezzo::nn {
namespace {

using Impls = std::unordered_set<const TensorImpl*>;

bool matches(const std::string& pattern, const std::string& name) {
  return fnmatch(pattern.c_str(), name.c_str(), 0) == 0;
}

// What a pattern could have been.
std::string example_of(const Module& net) {
  const std::vector<NamedTensor> parameters = net.named_parameters();
  return parameters.empty() ? "none, for there are no parameters" : parameters.back().name;
}

bool is_frozen_norm(const Module& module) {
  if (dynamic_cast<const BatchNorm*>(&module) == nullptr) return false;
  return std::ranges::none_of(module.own_parameters(), [](const Module::Member& member) {
    return member.tensor->requires_grad();
  });
}

}  // namespace

Frozen frozen_parts(Module& net) {
  Frozen frozen;
  for (const NamedTensor& entry : net.named_parameters()) {
    if (entry.tensor.requires_grad()) continue;
    frozen.parameters.push_back(entry.name);
    frozen.numbers += entry.tensor.numel();
  }
  for (const Module::NamedModule& entry : net.named_modules()) {
    if (is_frozen_norm(*entry.module)) frozen.norms.push_back(entry.name);
  }
  return frozen;
}

std::string describe_frozen(Module& net) {
  const Frozen frozen = frozen_parts(net);
  if (frozen.parameters.empty()) return {};
  std::string text =
      concat(frozen.parameters.size(), " of ", net.parameters().size(), " parameters (",
             frozen.numbers, " of ", net.parameter_count(), " numbers)");
  const std::size_t norms = frozen.norms.size();
  if (norms > 0) text += concat(", ", norms, " batch norm", norms == 1 ? "" : "s");
  return text;
}

std::vector<NamedTensor> parameters_matching(Module& net, const std::string& pattern,
                                             const char* what) {
  Impls below;
  for (const Module* module : net.matching(pattern)) {
    for (const Tensor& parameter : module->parameters()) below.insert(parameter.impl());
  }
  std::vector<NamedTensor> found = net.named_parameters();
  std::erase_if(found, [&](const NamedTensor& entry) {
    return !below.contains(entry.tensor.impl()) && !matches(pattern, entry.name);
  });
  check_arg(!found.empty(), what, "no parameter belongs to `", pattern,
            "`. Patterns are of paths of modules or names of parameters, such as ",
            example_of(net));
  return found;
}

Frozen freeze(Module& net, const std::vector<std::string>& patterns) {
  Impls wanted;
  for (const std::string& pattern : patterns) {
    for (const NamedTensor& entry : parameters_matching(net, pattern, "freeze")) {
      wanted.insert(entry.tensor.impl());
    }
  }
  const std::vector<NamedTensor> all = net.named_parameters();
  const bool leaves_some = std::ranges::any_of(all, [&](const NamedTensor& entry) {
    return entry.tensor.requires_grad() && !wanted.contains(entry.tensor.impl());
  });
  check_arg(leaves_some || wanted.empty(), "freeze", "nothing is left to train: all ", all.size(),
            " parameters would be frozen. Leave out the head, at least");
  for (NamedTensor entry : all) {
    if (!wanted.contains(entry.tensor.impl())) continue;
    entry.tensor.set_requires_grad(false);
    zero_grad({&entry.tensor, 1});  // an optimizer that holds it would go on with an old one
  }
  if (patterns.empty()) return frozen_parts(net);
  net.apply([](Module& module) {
    if (is_frozen_norm(module)) module.eval();
  });
  return frozen_parts(net);
}

std::vector<Tensor> trainable_parameters(const Module& net) {
  std::vector<Tensor> parameters = net.parameters();
  std::erase_if(parameters, [](const Tensor& parameter) { return !parameter.requires_grad(); });
  return parameters;
}

}  // namespace mezzo::nn
