// Hooks around the forward passes of modules.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "mezzo/core/scoped.h"
#include "mezzo/core/tensor.h"

namespace mezzo::nn {

class Module;

// Inputs or results of a module, in order. An undefined tensor stands for an input that was left
// out.
using Tensors = std::vector<Tensor>;

// Wraps a module's forward pass, for example in a precision region or a measurement.
class ForwardHook {
 public:
  using Forward = std::function<Tensors(const Tensors& inputs)>;

  virtual ~ForwardHook() = default;
  // Called instead of the forward pass; calls forward(inputs), usually once, and returns the
  // results. May change inputs and results, but not how many there are: a module that was called
  // with one tensor has one of each. It may keep guards on its stack, so that an exception undoes
  // them.
  virtual Tensors around(Module& module, const Tensors& inputs, const Forward& forward) = 0;
  // True if it changes only the precision that the pass computes in.
  virtual bool is_precision() const { return false; }
};

// While it exists, this thread's forward passes skip hooks of precision.
class WithoutPrecisionHooks {
 public:
  WithoutPrecisionHooks();

 private:
  Scoped<bool> scope_;
};

// While it exists, a hook is the outermost one of every module that this thread calls from outside
// of modules. Throws ArgumentError if the hook is null.
class AroundModules {
 public:
  explicit AroundModules(std::shared_ptr<ForwardHook> hook);

 private:
  std::shared_ptr<ForwardHook> hook_;
  Scoped<const std::shared_ptr<ForwardHook>*> scope_;
};

}  // namespace mezzo::nn
