#include "mezzo/nn/module.h"

#include <algorithm>
#include <unordered_set>
#include <utility>

#include <fnmatch.h>

#include "mezzo/core/log.h"
#include "mezzo/nn/called_with_one.h"
#include "mezzo/ops/dispatcher/capture_hook.h"
#include "mezzo/ops/dispatcher/grad_mode.h"

namespace mezzo::nn {
namespace {

constinit thread_local Module* current = nullptr;
// The hook of the innermost AroundModules.
constinit thread_local const std::shared_ptr<ForwardHook>* around_modules = nullptr;

std::string join(const std::string& prefix, const std::string& name) {
  return prefix.empty() ? name : prefix + "." + name;
}

}  // namespace

Module* current_module() { return current; }

std::string current_module_path() { return current != nullptr ? current->path() : std::string(); }

namespace {

std::string text_of(const Module& module) {
  const std::string path = module.path();
  return path.empty() ? "the network" : "`" + path + "`";
}

// Warns of a member that was never registered: it computes, but is not trained, saved or set to
// eval(). If it is trained on its own, like one network of a GAN, the warning can be ignored.
void warn_of_stranger(const Module& module, const Module& caller) {
  const std::vector<Tensor> parameters = module.parameters();
  if (std::ranges::none_of(parameters, &Tensor::requires_grad)) return;
  logging::warn_once(concat("[Module] ", text_of(caller), " calls a module with ",
                            parameters.size(),
                            " parameters that was not added: they are not among parameters(), and "
                            "not in state(). Call add() in the constructor"));
}

}  // namespace

Module::Entered::Entered(Module& module)
    : scope_(current, &module),
      has_hook_(scope_.previous() == nullptr && around_modules != nullptr) {
  const bool is_stranger =
      module.parent_ == nullptr && scope_.previous() != nullptr && scope_.previous() != &module;
  if (is_stranger && grad_enabled()) [[unlikely]]
    warn_of_stranger(module, *scope_.previous());
}

std::string Module::path() const {
  if (parent_ == nullptr) return name_;
  return join(parent_->path(), name_);
}

// Calls visit_module(prefix, module) for this module and all below it, parents first.
template <class Visit>
void Module::visit(const std::string& prefix, const Visit& visit_module) const {
  visit_module(prefix, *this);
  for (const Child& child : children_) child.module->visit(join(prefix, child.name), visit_module);
}

std::vector<NamedTensor> Module::named(std::vector<Member> Module::*members) const {
  std::vector<NamedTensor> result;
  std::unordered_set<const TensorImpl*> seen;
  visit("", [&](const std::string& prefix, const Module& module) {
    for (const Member& member : module.*members) {
      if (!seen.insert(member.tensor->impl()).second) continue;
      result.push_back({join(prefix, member.name), *member.tensor});
    }
  });
  return result;
}

std::vector<NamedTensor> Module::named_parameters() const { return named(&Module::parameters_); }

std::vector<NamedTensor> Module::named_buffers() const { return named(&Module::buffers_); }

std::vector<Module::NamedModule> Module::named_modules() {
  std::vector<NamedModule> result{{"", this}};
  // By index, because the loop inserts into the list: children after their parent.
  for (std::size_t i = 0; i < result.size(); ++i) {
    const NamedModule parent = result[i];
    std::size_t place = i + 1;
    for (const Child& child : parent.module->children_) {
      result.insert(result.begin() + static_cast<std::ptrdiff_t>(place++),
                    {join(parent.name, child.name), child.module});
    }
  }
  return result;
}

std::vector<Module*> Module::matching(const std::string& pattern) {
  std::vector<Module*> result;
  for (const NamedModule& entry : named_modules()) {
    if (!entry.name.empty() && fnmatch(pattern.c_str(), entry.name.c_str(), 0) == 0) {
      result.push_back(entry.module);
    }
  }
  return result;
}

Module* Module::find(std::string_view path) {
  Module* module = this;
  while (module != nullptr && !path.empty()) {
    const std::string_view name = path.substr(0, path.find('.'));
    path.remove_prefix(std::min(name.size() + 1, path.size()));
    const auto child = std::ranges::find(module->children_, name, &Child::name);
    module = child != module->children_.end() ? child->module : nullptr;
  }
  return module;
}

namespace {

thread_local bool without_precision = false;

void check_hook(const std::shared_ptr<ForwardHook>& hook) {
  check_arg(hook != nullptr, "module", "a forward hook is null. Create one first");
}

}  // namespace

WithoutPrecisionHooks::WithoutPrecisionHooks() : scope_(without_precision, true) {}

AroundModules::AroundModules(std::shared_ptr<ForwardHook> hook)
    : hook_((check_hook(hook), std::move(hook))), scope_(around_modules, &hook_) {}

void Module::add_forward_hook(std::shared_ptr<ForwardHook> hook) {
  check_hook(hook);
  hooks_.push_back(std::move(hook));
}

void Module::add_outermost_forward_hook(std::shared_ptr<ForwardHook> hook) {
  check_hook(hook);
  hooks_.insert(hooks_.begin(), std::move(hook));
}

void Module::remove_forward_hook(const ForwardHook* hook) {
  std::erase_if(hooks_, [hook](const auto& entry) { return entry.get() == hook; });
}

namespace {

constinit thread_local bool called_with_one = false;

// Runs a module's forward pass inside of its hooks, which are copied, because they may remove
// themselves.
Tensors run_inside(Module& module, bool has_hook, const Tensors& inputs,
                   const ForwardHook::Forward& body) {
  auto hooks = module.forward_hooks();
  if (has_hook) hooks.insert(hooks.begin(), *around_modules);
  if (without_precision) {
    std::erase_if(hooks, [](const auto& hook) { return hook->is_precision(); });
  }
  const std::function<Tensors(std::size_t, const Tensors&)> from = [&](std::size_t i,
                                                                       const Tensors& all) {
    if (i == hooks.size()) return body(all);
    return hooks[i]->around(module, all,
                            [&, i](const Tensors& inner) { return from(i + 1, inner); });
  };
  return from(0, inputs);
}

}  // namespace

bool is_called_with_one() { return called_with_one; }

Tensors Module::run_hooks(const Entered& entered, const Tensors& inputs,
                          const ForwardHook::Forward& body) {
  const Scoped<bool> with_list(called_with_one, false);
  return run_inside(*this, entered.has_hook(), inputs, body);
}

Tensor Module::run_hooks_of_one(const Entered& entered, const Tensor& x,
                                const std::function<Tensor(const Tensor&)>& body) {
  const auto check_one = [this](const Tensors& tensors, const char* what) {
    check_arg(tensors.size() == 1, "module", "a forward hook of ", text_of(*this), " makes ",
              tensors.size(), " ", what, " of one. Keep their number");
  };
  const auto body_of_one = [&](const Tensors& inputs) -> Tensors {
    check_one(inputs, "inputs");
    return {body(inputs.front())};
  };
  const Scoped<bool> with_one(called_with_one, true);
  Tensors results = run_inside(*this, entered.has_hook(), {x}, body_of_one);
  check_one(results, "results");
  return std::move(results.front());
}

namespace {

// The module whose forward(), not being overridden, calls forward_all() on this thread. If that is
// not overridden either, the two would call each other for ever.
constinit thread_local const Module* delegating = nullptr;

}  // namespace

Tensor Module::forward(const Tensor& x) {
  const Scoped<const Module*> here(delegating, this);
  Tensors results = forward_all({x});
  check_arg(results.size() == 1, "module", text_of(*this), " has ", results.size(),
            " results, but was asked for one. Call it with nn::Tensors{x} for all of them");
  return std::move(results.front());
}

Tensors Module::forward_all(const Tensors& inputs) {
  check_arg(delegating != this, "module", text_of(*this),
            " implements neither forward() nor forward_all(). Implement one of them");
  check_arg(inputs.size() == 1, "module", text_of(*this), " takes one input, not ", inputs.size(),
            ". Call it with one tensor, or implement forward_all()");
  return {forward(inputs.front())};
}

std::vector<Tensor> Module::parameters() const {
  std::vector<Tensor> result;
  for (NamedTensor& parameter : named_parameters()) result.push_back(std::move(parameter.tensor));
  return result;
}

std::int64_t Module::parameter_count() const {
  std::int64_t count = 0;
  for (const NamedTensor& parameter : named_parameters()) count += parameter.tensor.numel();
  return count;
}

void Module::apply(const std::function<void(Module&)>& f) {
  for (const Child& child : children_) child.module->apply(f);
  f(*this);
}

void Module::train(bool training) {
  apply([training](Module& module) { module.training_ = training; });
}

void Module::to(Device device) {
  for (const NamedTensor& parameter : named_parameters()) move_to(parameter.tensor, device);
  for (const NamedTensor& buffer : named_buffers()) {
    if (is_floating(buffer.tensor.dtype())) move_to(buffer.tensor, device);
  }
}

// Called in every step, so it builds no list of all names.
const Tensor* Module::first_parameter() const {
  if (!parameters_.empty()) return parameters_.front().tensor;
  for (const Child& child : children_) {
    if (const Tensor* found = child.module->first_parameter()) return found;
  }
  return nullptr;
}

Device Module::device() const {
  const Tensor* parameter = first_parameter();
  return parameter != nullptr ? parameter->device() : kCpuDevice;
}

// Called in every training step, so it avoids the names that parameters() builds.
void Module::zero_grad() {
  std::vector<Tensor> leaves;
  apply([&leaves](const Module& module) {
    for (const Member& parameter : module.own_parameters()) leaves.push_back(*parameter.tensor);
  });
  mezzo::zero_grad(leaves);
}

void Module::check_name(std::string_view name) const {
  check_arg(!name.empty(), "module", "a registered name must not be empty");
  check_arg(name.find('.') == std::string_view::npos, "module", "the name ", name,
            " has a dot, which separates the names of a path. Choose another");
  const auto is_taken = [name](const auto& entry) { return entry.name == name; };
  check_arg(std::ranges::none_of(children_, is_taken) &&
                std::ranges::none_of(parameters_, is_taken) &&
                std::ranges::none_of(buffers_, is_taken),
            "module", "the name ", name, " is registered already. Choose another");
}

void Module::add(std::string name, Module& child) {
  check_name(name);
  check_arg(child.parent_ == nullptr, "module", "cannot register ", name,
            ": the module is already the child ", child.path(),
            " of another one. Register it once, or make another");
  for (const Module* ancestor = this; ancestor != nullptr; ancestor = ancestor->parent_) {
    check_arg(ancestor != &child, "module", "cannot register ", name,
              ": it would contain itself. Leave it out");
  }
  child.parent_ = this;
  child.name_ = name;
  children_.push_back({std::move(name), &child});
}

void Module::add_parameter(std::string name, Tensor& parameter) {
  check_name(name);
  check_arg(parameter.defined(), "module", "the parameter ", name,
            " is undefined. Create it first");
  parameter.set_requires_grad(true);
  parameters_.push_back({std::move(name), &parameter});
}

void Module::add_buffer(std::string name, Tensor& buffer) {
  check_name(name);
  check_arg(buffer.defined(), "module", "the buffer ", name, " is undefined. Create it first");
  buffers_.push_back({std::move(name), &buffer});
}

std::vector<NamedTensor> Module::state() const {
  std::vector<NamedTensor> result;
  visit("", [&](const std::string& prefix, const Module& module) {
    for (const auto* members : {&module.parameters_, &module.buffers_}) {
      for (const Member& member : *members) {
        result.push_back({join(prefix, member.name), *member.tensor});
      }
    }
  });
  return result;
}

}  // namespace mezzo::nn
