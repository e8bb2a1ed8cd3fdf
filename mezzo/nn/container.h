// Modules that own a list of modules, named "0", "1", ...
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "mezzo/nn/module.h"

namespace mezzo::nn {

// The common base of Sequential and ModuleList.
class Container : public Module {
 public:
  // Appends a module. Throws ArgumentError if it is null.
  Module& add(std::unique_ptr<Module> module);
  // Constructs a module and appends it: `list.emplace<Linear>(84, 10)`.
  template <class T, class... Args>
  T& emplace(Args&&... args) {
    return static_cast<T&>(add(std::make_unique<T>(std::forward<Args>(args)...)));
  }

  std::size_t size() const { return modules_.size(); }
  // Throws ArgumentError if there is no such module.
  Module& operator[](std::size_t i) const;
  auto begin() const { return modules_.begin(); }  // over std::unique_ptr<Module>
  auto end() const { return modules_.end(); }

 private:
  std::vector<std::unique_ptr<Module>> modules_;
};

// Calls its modules one after another; without modules it returns its input. Called with several
// tensors, it passes all results of a module on to the next.
class Sequential : public Container {
 public:
  Sequential() = default;
  template <class... Modules>
  explicit Sequential(std::unique_ptr<Modules>... modules) {
    (add(std::move(modules)), ...);
  }

  Tensor forward(const Tensor& x) override;
  Tensors forward_all(const Tensors& inputs) override;
};

// Holds modules that its owner calls itself.
class ModuleList : public Container {
 public:
  ModuleList() = default;
  template <class... Modules>
  explicit ModuleList(std::unique_ptr<Modules>... modules) {
    (add(std::move(modules)), ...);
  }

  // Throws ArgumentError: a list does not define how to call its modules.
  Tensor forward(const Tensor& x) override;
  Tensors forward_all(const Tensors& inputs) override;
};

}  // namespace mezzo::nn
