#include "mezzo/nn/container.h"

namespace mezzo::nn {

Module& Container::add(std::unique_ptr<Module> module) {
  check_arg(module != nullptr, "module", "cannot append a null module. Create one first");
  Module::add(std::to_string(size()), *module);
  modules_.push_back(std::move(module));
  return *modules_.back();
}

Module& Container::operator[](std::size_t i) const {
  check_arg(i < size(), "module", "there is no module ", i, " among ", size(),
            ". They count from 0");
  return *modules_[i];
}

Tensor Sequential::forward(const Tensor& x) {
  Tensor y = x;
  for (const std::unique_ptr<Module>& module : *this) y = (*module)(y);
  return y;
}

Tensors Sequential::forward_all(const Tensors& inputs) {
  Tensors results = inputs;
  for (const std::unique_ptr<Module>& module : *this) results = (*module)(results);
  return results;
}

Tensor ModuleList::forward(const Tensor&) {
  fail("ModuleList", "a list cannot be called. Call its modules, or use Sequential");
}

// Classes derived from a list may override forward() alone.
Tensors ModuleList::forward_all(const Tensors& inputs) {
  if (inputs.size() == 1) return Module::forward_all(inputs);
  return {ModuleList::forward(Tensor())};
}

}  // namespace mezzo::nn
