#include "mezzo/nn/freeze.h"

#include <algorithm>
#include <unordered_set>

#include <fnmatch.h>

#include "mezzo/nn/batch_norm.h"
#include "mezzo/nn/parameter_names.h"
#include "mezzo/ops/dispatcher/capture_hook.h"

namespace mezzo::nn {
namespace {

using Impls = std::unordered_set<const TensorImpl*>;

// A pattern may match a parameter's own name or the path of any module that contains it.
bool matches(const std::string& pattern, const std::string& name) {
  const auto fits = [&](const std::string& part) {
    return fnmatch(pattern.c_str(), part.c_str(), 0) == 0;
  };
  for (std::size_t dot = name.find('.'); dot != std::string::npos; dot = name.find('.', dot + 1)) {
    if (fits(name.substr(0, dot))) return true;
  }
  return fits(name);
}

// An example of a valid pattern, for messages.
std::string example_of(const Module& net) {
  const std::vector<NamedTensor> parameters = net.named_parameters();
  return parameters.empty() ? "none, because there are no parameters" : parameters.back().name;
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
             frozen.numbers, " of ", net.parameter_count(), " values)");
  const std::size_t norms = frozen.norms.size();
  if (norms > 0) text += concat(", ", norms, " batch norm", norms == 1 ? "" : "s");
  return text;
}

std::vector<NamedTensor> parameters_matching(Module& net, const std::string& pattern,
                                             const char* what) {
  const ParameterNames names = parameter_names(net);
  std::unordered_set<std::size_t> wanted;
  for (std::size_t i = 0; i < names.entries.size(); ++i) {
    if (matches(pattern, names.entries[i].name)) wanted.insert(names.tensor_of[i]);
  }
  Impls named;
  for (std::size_t i = 0; i < names.entries.size(); ++i) {
    if (wanted.contains(names.tensor_of[i])) named.insert(names.entries[i].tensor.impl());
  }
  std::vector<NamedTensor> found = net.named_parameters();
  std::erase_if(found,
                [&](const NamedTensor& entry) { return !named.contains(entry.tensor.impl()); });
  check_arg(!found.empty(), what, "no parameter belongs to `", pattern,
            "`. Patterns match paths of modules or names of parameters, such as ", example_of(net));
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
            " parameters would be frozen. Leave out at least the head");
  for (NamedTensor entry : all) {
    if (!wanted.contains(entry.tensor.impl())) continue;
    entry.tensor.set_requires_grad(false);
    zero_grad({&entry.tensor, 1});  // an optimizer that holds it would use the old one
  }
  if (!patterns.empty()) eval_frozen_norms(net);
  return frozen_parts(net);
}

void eval_frozen_norms(Module& net) {
  net.apply([](Module& module) {
    if (is_frozen_norm(module)) module.eval();
  });
}

std::vector<Tensor> trainable_parameters(const Module& net) {
  std::vector<Tensor> parameters = net.parameters();
  std::erase_if(parameters, [](const Tensor& parameter) { return !parameter.requires_grad(); });
  return parameters;
}

}  // namespace mezzo::nn
